/* Walks over the records of one batch of magic 2 and judges them, as Kafka's DefaultRecord and LogValidator do.
 *
 * The records come in one piece or, while they are decompressed, in many: a scan keeps where it is between two of them,
 * inside a varint if need be, and holds no byte of them. Nothing is allocated, nothing outside the piece is read, and
 * every number may be anything. barnabas/wire/scan.py knows the layout of `Scan` and does the same in Python.
 */
#include <stddef.h>
#include <stdint.h>

enum { STRICT = 1, NEEDS_KEYS = 2, CREATE_TIME = 4, APPEND_TIMED = 8 };

enum { FINE = 0, RECORD_LENGTH = 1, STRUCTURE = 2, LEFT_OVER = 3 };

enum { NO_KEY = 1, OUT_OF_RANGE = 2, STAMPED = 3 };

enum { LENGTH, ATTRIBUTES, TIMESTAMP, OFFSET, KEY, VALUE, HEADERS, NAME, HEADER_VALUE, END };

typedef struct {
    int32_t index, kind, offset_delta, key_size, value_size, unused;
    int64_t timestamp;
} RecordError;

typedef struct {
    /* Given by the caller, with the rest zero but for max_timestamp, which is -1. Times in ms. */
    int64_t base_timestamp, append_time, now, before_max, after_max;
    int32_t record_count, flags;
    /* What is found. */
    int64_t max_timestamp;
    int32_t fault, disordered, error_count, timestamp_errors;
    /* Where it is: how many records are done, which field is next, bytes to pass over, bytes left of the record, a
     * varint's bits so far, headers to come, and what is known of the record. */
    int32_t records, field;
    int64_t skip, left;
    uint64_t bits;
    int32_t shift, headers;
    int64_t timestamp;
    int32_t offset_delta, key_size, value_size, error_capacity;
    RecordError errors[];
} Scan;

static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static int64_t minus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

static int32_t zigzag(uint64_t bits) {
    uint32_t number = (uint32_t)bits;
    return (int32_t)(number >> 1 ^ (0u - (number & 1)));
}

/* A record's, of whose delta these are the bits. */
static int64_t timestamp(const Scan *scan, uint64_t bits) {
    if (scan->flags & APPEND_TIMED) return scan->append_time;
    return plus(scan->base_timestamp, (int64_t)(bits >> 1 ^ (0 - (bits & 1))));
}

/* The record is read whole: what LogValidator.validateRecord asks of it, in its order. */
static void judge(Scan *scan) {
    int32_t kind = 0;
    int64_t time = scan->timestamp;
    if (scan->flags & NEEDS_KEYS && scan->key_size < 0) {
        kind = NO_KEY;
    } else if (scan->flags & CREATE_TIME && time != -1) {
        int64_t age = minus(scan->now, time);
        if (age > scan->before_max || minus(0, age) > scan->after_max) kind = OUT_OF_RANGE;
    } else if (scan->flags & APPEND_TIMED) {
        kind = STAMPED;
    }
    if (kind) {
        if (scan->error_count < scan->error_capacity) {
            RecordError *error = &scan->errors[scan->error_count];
            error->index = scan->records;
            error->kind = kind;
            error->offset_delta = scan->offset_delta;
            error->key_size = scan->key_size;
            error->value_size = scan->value_size;
            error->timestamp = time;
        }
        scan->error_count++;
        scan->timestamp_errors |= kind != NO_KEY;
    }
    scan->disordered |= scan->offset_delta != scan->records;
    if (time > scan->max_timestamp) scan->max_timestamp = time;
    scan->records++;
}

/* One field is read, `scan->bits`; says which comes next. */
static int32_t take(Scan *scan) {
    int32_t number = zigzag(scan->bits);
    switch (scan->field) {
    case LENGTH:
        scan->left = number;
        scan->field = ATTRIBUTES;
        return FINE;
    case TIMESTAMP:
        scan->timestamp = timestamp(scan, scan->bits);
        scan->field = OFFSET;
        return FINE;
    case OFFSET:
        scan->offset_delta = number;
        scan->field = KEY;
        return FINE;
    case KEY:
        scan->key_size = number;
        scan->skip = number < 0 ? 0 : number;
        scan->field = VALUE;
        return FINE;
    case VALUE:
        scan->value_size = number;
        scan->skip = number < 0 ? 0 : number;
        scan->field = HEADERS;
        return FINE;
    case HEADERS:
        if (number < 0) return STRUCTURE;
        scan->headers = number;
        break;
    case NAME:
        if (number < 0) return STRUCTURE;
        scan->skip = number;
        scan->field = HEADER_VALUE;
        return FINE;
    default:
        scan->skip = number < 0 ? 0 : number;
        scan->headers--;
        break;
    }
    scan->field = scan->headers ? NAME : END;
    return FINE;
}

/* The varint at `data`; NULL where it is not whole, or not of one byte after another as it should be. */
static const uint8_t *varint(const uint8_t *data, const uint8_t *end, uint64_t *bits) {
    uint64_t number = 0;
    for (int32_t shift = 0; shift < 35 && data < end; shift += 7) {
        uint8_t byte = *data++;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *bits = number;
            return data;
        }
    }
    return NULL;
}

/* The end of the record at `data`, judged, where it is whole and plain; NULL, and nothing changed, for all others. */
static const uint8_t *plain_record(Scan *scan, const uint8_t *data, const uint8_t *end) {
    uint64_t length, delta, offset, key, value;
    const uint8_t *start = varint(data, end, &length), *at = start;
    if (!at || at++ == end) return NULL;
    if (!(at = varint(at, end, &delta)) || !(at = varint(at, end, &offset)) || !(at = varint(at, end, &key)))
        return NULL;
    int32_t key_size = zigzag(key);
    if (key_size > end - at) return NULL;
    at = varint(key_size < 0 ? at : at + key_size, end, &value);
    if (!at) return NULL;
    int32_t value_size = zigzag(value);
    if (value_size >= end - at) return NULL;
    if (value_size > 0) at += value_size;
    if (at == end || *at++) return NULL;
    if (scan->flags & STRICT && at - start != zigzag(length)) return NULL;
    scan->timestamp = timestamp(scan, delta);
    scan->offset_delta = zigzag(offset);
    scan->key_size = key_size;
    scan->value_size = value_size;
    judge(scan);
    return at;
}

/* Takes the next `size` bytes; returns the fault, after which nothing more is taken. */
static int32_t feed(Scan *scan, const uint8_t *data, size_t size) {
    const uint8_t *end = data + size, *next;
    while (!scan->fault) {
        if (scan->skip) {
            int64_t step = end - data < scan->skip ? (int64_t)(end - data) : scan->skip;
            data += step;
            scan->skip -= step;
            scan->left -= step;
            if (scan->skip) break;
        }
        if (scan->field == END) {
            if (scan->flags & STRICT && scan->left) {
                scan->fault = STRUCTURE;
                break;
            }
            judge(scan);
            scan->field = LENGTH;
        }
        if (scan->field == LENGTH && !scan->shift)
            while (scan->records < scan->record_count && (next = plain_record(scan, data, end))) data = next;
        if (data == end) break;
        if (scan->field == LENGTH && scan->records >= scan->record_count) {
            scan->fault = LEFT_OVER;
            break;
        }
        uint8_t byte = *data++;
        if (scan->field != LENGTH) scan->left--;
        if (scan->field == ATTRIBUTES) {
            scan->field = TIMESTAMP;
            continue;
        }
        scan->bits |= (uint64_t)(byte & 0x7F) << scan->shift;
        scan->shift += 7;
        if (!(byte & 0x80)) {
            scan->fault = take(scan);
            scan->bits = 0;
            scan->shift = 0;
        } else if (scan->shift >= (scan->field == TIMESTAMP ? 70 : 35)) {
            scan->fault = scan->field == LENGTH ? RECORD_LENGTH : STRUCTURE;
        }
    }
    return scan->fault;
}

/* No more bytes come. */
static int32_t finish(Scan *scan) {
    if (!scan->fault && (scan->records != scan->record_count || scan->field != LENGTH || scan->shift))
        scan->fault = STRUCTURE;
    return scan->fault;
}
