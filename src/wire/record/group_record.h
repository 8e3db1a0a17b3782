/* group_record: the records of a group's log as JSON, one object each.
 *
 * The names are those of the protocol that it grew from: syncEpoch, taskID, messageTimestamp,
 * connectorState with taskID, stateTimestamp, data and share; Rota adds its own to them
 * (docs/groups.md has the whole list). An unknown field is kept where a record or a partition is
 * passed on; an unknown version is not read at all.
 *
 * The reader is strict and bounded: depth, sizes and numbers have limits, keys are unique, and
 * everything it rejects is one of four: foreign, future, malformed, oversized. It has a scanner
 * of its own, since a general library would build a tree of every record and forget the text of
 * what it does not know. */
#pragma once

#include "base/buffer.h"
#include "core/own/group_fold.h"

enum { ROTA_GROUP_RECORD_VERSION = 1, ROTA_GROUP_RECORD_DEPTH_MAX = 16 };

/* Read one record. Gives `*record`, which rota_group_record_unref() ends, and
 * ROTA_GROUP_ACCEPTED; or another verdict, with a sentence. ROTA_ERR_NO_MEMORY is the only
 * failure. Any thread. */
enum rota_code rota_group_record_parse(struct rota_str text, struct rota_group_record **record,
                                       enum rota_group_verdict *verdict, struct rota_error *error);

/* Append a record as JSON, without a line's end. ROTA_ERR_LIMIT, and nothing is
 * written, when it would be above ROTA_GROUP_RECORD_MAX; sets `record->size`. */
enum rota_code rota_group_record_format(struct rota_group_record *record,
                                        struct rota_buffer *buffer, struct rota_error *error);

/* A member's metadata for the membership engine: its name and incarnation as text, "7/name", and
 * back. */
enum { ROTA_GROUP_METADATA_MAX = ROTA_GROUP_TASK_NAME_MAX + 24 };
char *rota_group_record_metadata_format(struct rota_group_member member,
                                        char text[ROTA_GROUP_METADATA_MAX]);
enum rota_code rota_group_record_metadata_parse(struct rota_str text,
                                                struct rota_group_member *member);
