/* Takes the records of batches of magic 2 apart, into the buffers of Arrow's columns.
 *
 * barnabas/spark/arrow.py makes the buffers and knows what they mean; barnabas/spark/kernels.py does the same by numba.
 * Nothing is allocated, nothing outside the source is read or outside a buffer written, and every number may be anything.
 */
#ifndef BARNABAS_COLUMNS_H
#define BARNABAS_COLUMNS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BATCH_FROM, BATCH_END, BATCH_RECORDS, BATCH_OFFSET, BATCH_TIMESTAMP, BATCH_APPEND_TIME, BATCH_TYPE, BATCH_FIELDS };

enum { ENDS_TOO_EARLY = -1, FIELDS_AMISS = -2, BYTES_LEFT = -3, HEADERS_AMISS = -4, NO_ROOM = -5 };

#define NO_APPEND_TIME INT64_MIN

/* Bytes one behind the other, the end of each behind a first 0, and a bit for each that is not null. */
typedef struct {
    int32_t *ends;
    uint8_t *bytes, *validity;
    int64_t room, size, nulls;
} BinaryColumn;

typedef struct {
    int64_t rows_max;
    int64_t *offsets, *timestamps, *header_positions, *header_counts;
    int32_t *types;
    BinaryColumn *keys, *values; /* NULL where they are not wanted. */
    int64_t headers, bare;       /* Of all records; records without any. */
} RecordColumns;

static int64_t sum_of(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static const uint8_t *long_varint(const uint8_t *at, const uint8_t *end, int64_t *number) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
            return at;
        }
    }
    return NULL;
}

/* A zigzag varint of up to 64 bits at `at`, and where it ends; NULL where that is not before `end`. Most take one byte or two:
 * no call for these. */
static inline const uint8_t *signed_varint(const uint8_t *at, const uint8_t *end, int64_t *number) {
    uint32_t bits;
    if (at < end && *at < 0x80) {
        bits = *at++;
    } else if (end - at >= 2 && at[1] < 0x80) {
        bits = (uint32_t)at[1] << 7 | (at[0] & 0x7F);
        at += 2;
    } else {
        return long_varint(at, end, number);
    }
    *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
    return at;
}

/* A size, null where it is negative, and that many bytes; where they end, NULL where that is behind `end`. */
static const uint8_t *sized(const uint8_t *at, const uint8_t *end, int64_t *size, const uint8_t **bytes) {
    at = signed_varint(at, end, size);
    if (!at || *size > end - at) return NULL;
    *bytes = at;
    return *size < 0 ? at : at + *size;
}

static int add(BinaryColumn *column, int64_t row, const uint8_t *bytes, int64_t size) {
    if (size >= 0) {
        if (size > column->room - column->size || size > INT32_MAX - column->size) return 0;
        if (size) memcpy(column->bytes + column->size, bytes, (size_t)size);
        column->size += size;
        if (column->validity) column->validity[row >> 3] |= (uint8_t)(1 << (row & 7));
    } else {
        column->nulls++;
    }
    column->ends[row + 1] = (int32_t)column->size;
    return 1;
}

/* The records with `first` <= offset < `end` of the batches that `sections` describe: how many, or what is wrong. */
static int64_t record_columns(
    const uint8_t *source, int64_t source_size, const int64_t *sections, int64_t batches, int64_t first, int64_t end,
    RecordColumns *out
) {
    int64_t row = 0;
    for (const int64_t *batch = sections; batches--; batch += BATCH_FIELDS) {
        if (batch[BATCH_FROM] < 0 || batch[BATCH_FROM] > batch[BATCH_END] || batch[BATCH_END] > source_size)
            return ENDS_TOO_EARLY;
        const uint8_t *at = source + batch[BATCH_FROM], *batch_end = source + batch[BATCH_END];
        for (int64_t left = batch[BATCH_RECORDS]; left > 0; left--) {
            int64_t length, timestamp, delta, key_size, value_size, headers;
            const uint8_t *key, *value;
            at = signed_varint(at, batch_end, &length);
            if (!at || length < 1 || length > batch_end - at) return ENDS_TOO_EARLY;
            const uint8_t *record_end = at + length;
            at = signed_varint(at + 1, record_end, &timestamp); /* behind the attributes, a byte without meaning */
            if (!at || !(at = signed_varint(at, record_end, &delta))) return ENDS_TOO_EARLY;
            if (!(at = sized(at, record_end, &key_size, &key))) return FIELDS_AMISS;
            if (!(at = sized(at, record_end, &value_size, &value))) return FIELDS_AMISS;
            if (!(at = signed_varint(at, record_end, &headers))) return ENDS_TOO_EARLY;
            if (headers < 0 || headers > record_end - at) return HEADERS_AMISS;
            if (!headers && at != record_end) return FIELDS_AMISS;
            int64_t headers_from = at - source, offset = sum_of(batch[BATCH_OFFSET], delta);
            at = record_end;
            if (offset < first || offset >= end) continue;
            if (row == out->rows_max) return NO_ROOM;
            int64_t time = batch[BATCH_APPEND_TIME];
            if (time == NO_APPEND_TIME) time = sum_of(batch[BATCH_TIMESTAMP], timestamp);
            out->offsets[row] = offset;
            out->timestamps[row] = (int64_t)((uint64_t)time * 1000);
            out->types[row] = (int32_t)batch[BATCH_TYPE];
            if (out->keys && !add(out->keys, row, key, key_size)) return NO_ROOM;
            if (out->values && !add(out->values, row, value, value_size)) return NO_ROOM;
            out->header_positions[row] = headers_from;
            out->header_counts[row] = headers;
            out->headers += headers;
            out->bare += !headers;
            row++;
        }
        if (at != batch_end) return BYTES_LEFT;
    }
    return row;
}

/* The headers of such rows: how many, or what is wrong. `validity` of the names is NULL: none may be null. */
static int64_t header_columns(
    const uint8_t *source, int64_t source_size, int64_t rows, const int64_t *positions, const int64_t *counts,
    int32_t *list_ends, uint8_t *list_validity, int64_t headers_max, BinaryColumn *names, BinaryColumn *values
) {
    int64_t number = 0;
    const uint8_t *end = source + source_size;
    for (int64_t row = 0; row < rows; row++) {
        if (positions[row] < 0 || positions[row] > source_size) return FIELDS_AMISS;
        const uint8_t *at = source + positions[row], *name, *value;
        if (counts[row] > 0) list_validity[row >> 3] |= (uint8_t)(1 << (row & 7));
        for (int64_t left = counts[row]; left > 0; left--, number++) {
            int64_t name_size, value_size;
            if (number == headers_max) return NO_ROOM;
            if (!(at = sized(at, end, &name_size, &name)) || name_size < 0) return FIELDS_AMISS;
            if (!(at = sized(at, end, &value_size, &value))) return FIELDS_AMISS;
            if (!add(names, number, name, name_size) || !add(values, number, value, value_size)) return NO_ROOM;
        }
        list_ends[row + 1] = (int32_t)number;
    }
    return number;
}

#endif
