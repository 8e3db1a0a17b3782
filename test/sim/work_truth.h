/* What must hold, and what really happened.
 *
 * The truth counts runs: every dispatch is one, and what a worker sends names the run it
 * belongs to, so that a broker which takes one attempt for another is found out. An end or
 * an acknowledgement is true when its answer may go out, that is when its record is on
 * disk; whatever a broker forgets before that, it may forget. */
#pragma once

#include "work_disk.h"

const struct run *run_at(const struct world *world, uint32_t run);
const struct session *find_session(const struct broker *broker, uint64_t session);
bool is_queue_paused(const struct broker *broker, struct rota_str name);

/* A job goes to a session. Returns the run. */
uint32_t truth_dispatch(struct world *world, uint32_t node, const struct session *session,
                        uint32_t number, uint64_t attempt);

/* A broker writes that an attempt is over. One that is lost may still go on. */
void truth_over(struct world *world, uint32_t node, const struct rota_work_record *record);

/* A crash may take the records that were not on disk. */
void truth_crashed(struct world *world, uint32_t node);

/* A broker has taken a worker's word for the end of a run; before that its job was as in
 * `before`. */
void truth_end_taken(struct world *world, uint32_t node, const struct frame *frame,
                     const struct rota_job_view *before);

/* The end is on disk. */
void truth_ended(struct world *world, uint32_t node, uint32_t number, enum rota_job_cause cause,
                 uint64_t attempt);
void truth_recovered(struct world *world, uint32_t node);
bool is_gone(const struct world *world, uint32_t node, uint32_t life);
void look(void *data, uint64_t number);
bool are_all_let_in(const struct world *world);
bool is_all_well(struct world *world, uint32_t *which);
void check_end(struct world *world);
