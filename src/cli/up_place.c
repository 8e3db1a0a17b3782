#include "cli/up.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void rota_up_find_programs(char rota[PATH_MAX], char rotad[PATH_MAX])
{
    const char *told = getenv("ROTA_ROTAD");
    ssize_t size = readlink("/proc/self/exe", rota, PATH_MAX - 1);
    if (size > 0)
        rota[size] = '\0';
    else
        snprintf(rota, PATH_MAX, "rota");
    const char *slash = strrchr(rota, '/');
    snprintf(rotad, PATH_MAX, "%.*srotad", slash ? (int)(slash + 1 - rota) : 0, rota);
    if (told && *told)
        snprintf(rotad, PATH_MAX, "%s", told);
    else if (access(rotad, X_OK))
        snprintf(rotad, PATH_MAX, "rotad");
}

enum rota_code rota_up_directory_make(const char *wanted, char path[PATH_MAX],
                                      struct rota_error *error)
{
    const char *parent = getenv("TMPDIR");
    char made[PATH_MAX];
    bool is_made;
    if (wanted) {
        snprintf(made, sizeof made, "%s", wanted);
        is_made = mkdir(made, 0700) == 0 || errno == EEXIST;
    } else {
        snprintf(made, sizeof made, "%.2000s/rota-up-XXXXXX", parent && *parent ? parent : "/tmp");
        is_made = mkdtemp(made) != NULL;
    }
    if (!is_made || !realpath(made, path))
        return rota_error_set(error, ROTA_ERR_IO, "making the directory %.1000s: %s", made,
                              strerror(errno));
    return ROTA_OK;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    remove(path);
    return 0;
}

void rota_up_directory_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
