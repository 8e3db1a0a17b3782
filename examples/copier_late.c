/* What happens to a task that writes with an old token, without checking that it still owns the
 * partition: `copier_late OUT FILE TOKEN LINE`. */
#include "copier_out.h"

int main(int argc, char **argv)
{
    int out = argc == 5 ? out_open(argv[1], argv[2]) : -1;
    if (out < 0) {
        fprintf(stderr, "usage: copier_late OUT FILE TOKEN LINE\n");
        return 2;
    }
    bool is_written = out_write(out, strtoull(argv[3], NULL, 10), argv[4]);
    puts(is_written ? "written" : "rejected: a later owner, with a higher token, has written here");
    return !is_written;
}
