/* The log and the members of a group in a real Kafka of one broker. */
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
    sync_checks.session = 2 * ROTA_SEC; /* as test/lib/kafka.py allows */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
