/* The log and the members of a group in a real database; test/lib/databases.py says in
 * which. */
#include "database.h"
#include "sync_checks.h"

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SYNC_CHECKS,
    };
    if (argc > 1)
        return sync_member_main(argc, argv);
    sync_checks.url = database_text("ROTA_TEST_URL");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
