#include "demo/up.h"

#include "base/buffer.h"
#include "io/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void rota_up_find_programs(char rota[PATH_MAX], char rotad[PATH_MAX])
{
    static const char *const BESIDE[] = {"rotad", "../node/rotad"}; /* installed; built */
    const char *told = getenv("ROTA_ROTAD");
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", rota, PATH_MAX - 1);
    if (size > 0)
        rota[size] = '\0';
    else
        snprintf(rota, PATH_MAX, "rota");
    const char *slash = strrchr(rota, '/');
    int n = slash ? (int)(slash + 1 - rota) : 0;
    if (told && *told) {
        snprintf(rotad, PATH_MAX, "%s", told);
        return;
    }
    for (size_t i = 0; i < sizeof BESIDE / sizeof BESIDE[0]; i++) {
        snprintf(path, sizeof path, "%.*s%s", n, rota, BESIDE[i]);
        if (access(path, X_OK) == 0) {
            memcpy(rotad, path, sizeof path);
            return;
        }
    }
    snprintf(rotad, PATH_MAX, "rotad");
}

enum rota_code rota_up_find_counter(const char *rota, char path[PATH_MAX], struct rota_error *error)
{
    static const char *const BESIDE[] = {"counter_server", "../../examples/counter_server"};
    const char *told = getenv("ROTA_COUNTER_SERVER");
    int n = (int)(strrchr(rota, '/') ? strrchr(rota, '/') + 1 - rota : 0);
    snprintf(path, PATH_MAX, "%s", told ? told : "");
    for (size_t i = 0; !*path && i < sizeof BESIDE / sizeof *BESIDE; i++) {
        snprintf(path, PATH_MAX, "%.*s%s", n, rota, BESIDE[i]);
        if (access(path, X_OK))
            *path = '\0';
    }
    return *path && access(path, X_OK) == 0
               ? ROTA_OK
               : rota_error_set(error, ROTA_ERR_NOT_FOUND,
                                "cannot find the program counter_server: compile "
                                "examples/counter/counter_server.c and set ROTA_COUNTER_SERVER to "
                                "its path");
}

/* --- ports --- */

static int compare_addresses(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Linux lets a second socket bind a port of one that does not listen if both reuse addresses, as
 * those of nodes do; it does not hand out the port as a free one. */
enum rota_code rota_up_reserve(char addresses[][ROTA_CHANNEL_TARGET_MAX], size_t n,
                               struct rota_error *error)
{
    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
            bind(fd, (struct sockaddr *)&address, sizeof address) ||
            getsockname(fd, (struct sockaddr *)&address, &size))
            return rota_error_set(error, ROTA_ERR_IO, "cannot reserve a port on 127.0.0.1: %s",
                                  strerror(errno));
        snprintf(addresses[i], ROTA_CHANNEL_TARGET_MAX, "127.0.0.1:%u", ntohs(address.sin_port));
    }
    qsort(addresses, n, sizeof *addresses, compare_addresses);
    return ROTA_OK;
}

/* --- the sample --- */

char *rota_up_value(unsigned key, char text[ROTA_UP_VALUE_MAX])
{
    snprintf(text, ROTA_UP_VALUE_MAX, "value of sample-%u, which is %u squared: %u", key, key,
             key * key);
    return text;
}

enum rota_code rota_up_write_file(const char *path, const struct rota_buffer *content,
                                  struct rota_error *error)
{
    char fresh[PATH_MAX + 8];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = content->failed ? NULL : fopen(fresh, "we");
    bool is_written = file && fwrite(content->data, 1, content->size, file) == content->size;
    if (file && fclose(file))
        is_written = false;
    if (!is_written || rename(fresh, path))
        return rota_error_set(error, ROTA_ERR_IO, "cannot write %.1000s: %s", path,
                              strerror(errno));
    return ROTA_OK;
}

static void append_quoted(struct rota_buffer *buffer, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            rota_buffer_append_char(buffer, '\\');
        rota_buffer_append_char(buffer, *text);
    }
}

enum rota_code rota_up_sample_write(const char *data, bool has_ledger, struct rota_error *error)
{
    struct rota_buffer values = {0}, settings = {0};
    char path[PATH_MAX], value[ROTA_UP_VALUE_MAX];
    for (unsigned i = 0; i < ROTA_UP_KEYS; i++)
        rota_buffer_print(&values, "sample-%u\t%s\n", i, rota_up_value(i, value));
    snprintf(path, sizeof path, "%.4000s/sample.tsv", data);
    enum rota_code code = rota_up_write_file(path, &values, error);
    rota_buffer_append_text(&settings, "# The settings of all nodes of `rota up`.\n");
    if (has_ledger) {
        rota_buffer_append_text(&settings, "ledger = \"");
        append_quoted(&settings, data);
        rota_buffer_append_text(&settings, "/ledger.json\"\n");
    }
    rota_buffer_print(&settings,
                      "\n[[cache]]\nname = \"%s\"\nshards = %d\nsource = \"file:", rota_up_queue,
                      ROTA_UP_CACHE_SHARDS);
    append_quoted(&settings, path);
    rota_buffer_print(&settings,
                      "\"\n\n[[group]]\nname = \"%s\"\n\n[[space]]\nname = \"%s\"\n"
                      "engine = \"ring\"\nshards = %d\n",
                      rota_up_queue, rota_up_space, ROTA_UP_SHARDS);
    snprintf(path, sizeof path, "%.4000s/rotad.toml", data);
    if (!code)
        code = rota_up_write_file(path, &settings, error);
    rota_buffer_deinit(&values);
    rota_buffer_deinit(&settings);
    return code;
}

bool rota_up_has_group(const char *data)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/groups.db", data);
    return access(path, F_OK) == 0;
}

enum rota_code rota_up_directory_make(const char *wanted, char path[PATH_MAX],
                                      struct rota_error *error)
{
    const char *parent = getenv("TMPDIR");
    char made[PATH_MAX];
    bool is_made;
    int lock;
    long holder;
    if (wanted) {
        snprintf(made, sizeof made, "%s", wanted);
        is_made = mkdir(made, 0700) == 0 || errno == EEXIST;
    } else {
        snprintf(made, sizeof made, "%.2000s/rota-up-XXXXXX", parent && *parent ? parent : "/tmp");
        is_made = mkdtemp(made) != NULL;
    }
    if (!is_made || !realpath(made, path))
        return rota_error_set(error, ROTA_ERR_IO, "cannot create the directory %.1000s: %s", made,
                              strerror(errno));
    snprintf(made, sizeof made, "%.4000s/up.lock", path);
    enum rota_code code = rota_file_lock(made, &lock, &holder, error); /* until this process ends */
    if (code == ROTA_ERR_UNAVAILABLE)
        rota_error_set(error, code, "another rota up (process %ld) uses the directory %.1000s",
                       holder, path);
    return code;
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
