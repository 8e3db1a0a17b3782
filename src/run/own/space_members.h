/* space_members: the nodes of a keyed space as a source of members.
 *
 * The members of the view in force are placed, by their weights and zones. Other nodes with a row
 * in the space, which drain or are about to join, are listed as draining. A node that joins reports
 * no list before one that has it. While no view is known, or the store is unreachable, the last
 * list stays. */
#pragma once

#include <rota/experimental/members.h>
#include <rota/space.h>

struct rota_space_members;

/* Gives `*members`, whose source rota_members_open() takes; it ends with its source. */
enum rota_code rota_space_members_new(struct rota_space_members **members,
                                      struct rota_error *error);
struct rota_members_source *rota_space_members_source(struct rota_space_members *members);

/* Report the nodes of this keyed space from now on, until it is closed. */
void rota_space_members_follow(struct rota_space_members *members, struct rota_space *space);

/* The number of the view whose members were last reported; 0: none. */
uint64_t rota_space_members_number(const struct rota_space_members *members);

/* There may be a later view: read it now. */
void rota_space_members_hint(struct rota_space_members *members);

/* --- for the space --- */

void rota_space_members_look(struct rota_space_members *members);
void rota_space_members_unfollow(struct rota_space_members *members);
