/* What becomes of a task that writes without asking whether it may:
 * `connector_late OUT FILE TOKEN LINE`. */
#include "connector_out.h"

int main(int argc, char **argv)
{
    int out = argc == 5 ? out_open(argv[1], argv[2]) : -1;
    if (out < 0) {
        fprintf(stderr, "usage: connector_late OUT FILE TOKEN LINE\n");
        return 2;
    }
    bool is_written = out_write(out, strtoull(argv[3], NULL, 10), argv[4]);
    puts(is_written ? "written" : "refused: a higher token has written here");
    return !is_written;
}
