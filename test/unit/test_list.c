#include "base/list.h"

#include "vectors.h"

struct item {
    int number;
    struct rota_list_node link;
};

static struct rota_list_node list;
static struct item items[4];

static int set_up(void **state)
{
    (void)state;
    rota_list_init(&list);
    for (int i = 0; i < 4; i++) {
        items[i] = (struct item){.number = i};
        rota_list_push(&list, &items[i].link);
    }
    return 0;
}

/* The numbers of a list as digits, and back again by the other pointers. */
static int digits_of(const struct rota_list_node *from)
{
    int forth = 1, back = 0, place = 1;
    ROTA_LIST_EACH (item, from, const struct item, link)
        forth = 10 * forth + item->number;
    for (const struct rota_list_node *at = from->previous; at != from; at = at->previous) {
        back += place * ROTA_LIST_ITEM(at, const struct item, link)->number;
        place *= 10;
    }
    assert_int_equal(forth, back + place);
    return forth;
}

static void items_come_in_the_order_in_which_they_were_pushed(void **state)
{
    (void)state;
    assert_int_equal(digits_of(&list), 10123);
    rota_list_remove(&items[0].link);
    rota_list_push(list.next, &items[0].link); /* before the first */
    assert_int_equal(digits_of(&list), 10123);
    rota_list_remove(&items[2].link);
    rota_list_push(&items[1].link, &items[2].link);
    assert_int_equal(digits_of(&list), 10213);
}

static void a_link_in_no_list_can_be_removed(void **state)
{
    (void)state;
    rota_list_remove(&items[1].link);
    assert_null(items[1].link.next);
    rota_list_remove(&items[1].link);
    assert_int_equal(digits_of(&list), 1023);
}

static void each_item_may_be_removed_as_it_is_met(void **state)
{
    (void)state;
    ROTA_LIST_EACH (item, &list, struct item, link)
        if (item->number != 2) {
            rota_list_remove(&item->link);
            memset(item, 0xff, sizeof *item); /* it may be freed */
        }
    assert_int_equal(digits_of(&list), 12);
}

static void a_drained_list_is_empty(void **state)
{
    int n = 0;
    (void)state;
    ROTA_LIST_DRAIN (item, &list, struct item, link) {
        assert_int_equal(item->number, n++ % 4);
        rota_list_remove(&item->link);
        if (n <= 2)
            rota_list_push(&list, &item->link); /* it is met again */
    }
    assert_int_equal(n, 6);
    assert_true(rota_list_is_empty(&list));
    assert_null(ROTA_LIST_FIRST(&list, struct item, link));
}

static void a_taken_list_leaves_nothing(void **state)
{
    struct rota_list_node taken;
    (void)state;
    rota_list_take(&taken, &list);
    assert_true(rota_list_is_empty(&list));
    assert_int_equal(digits_of(&taken), 10123);
    ROTA_LIST_DRAIN (item, &taken, struct item, link) {
        rota_list_remove(&item->link);
        rota_list_push(&list, &item->link);
    }
    assert_int_equal(digits_of(&list), 10123);
    rota_list_init(&list);
    rota_list_take(&taken, &list);
    assert_true(rota_list_is_empty(&taken));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(items_come_in_the_order_in_which_they_were_pushed, set_up),
        cmocka_unit_test_setup(a_link_in_no_list_can_be_removed, set_up),
        cmocka_unit_test_setup(each_item_may_be_removed_as_it_is_met, set_up),
        cmocka_unit_test_setup(a_drained_list_is_empty, set_up),
        cmocka_unit_test_setup(a_taken_list_leaves_nothing, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
