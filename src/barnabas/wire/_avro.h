/* Takes values in Avro's binary encoding apart, into the buffers of Arrow's columns.
 *
 * barnabas/spark/avro_plan.py makes of two schemas the nodes (how bytes are read, in the order in which they come) and the
 * columns (how what is read is kept); barnabas/spark/avro.py reads the same in Python. A value that is amiss, or of which
 * this knows too little, is refused, and that reader tells why. Nothing is allocated, nothing outside a value is read or
 * outside a buffer written, and the bytes may be any.
 */
#ifndef BARNABAS_AVRO_H
#define BARNABAS_AVRO_H

#include "_columns.h"

/* How bytes are read. Those of a union, a record, an array and a map have inner nodes behind them. */
enum {
    AVRO_NULL,    /* No bytes. */
    AVRO_REFUSED, /* What the column cannot take: its value is refused. */
    AVRO_BOOLEAN,
    AVRO_INT,
    AVRO_LONG,
    AVRO_FLOAT,
    AVRO_DOUBLE,
    AVRO_BYTES, /* Text as well. */
    AVRO_FIXED, /* `argument`: its size. */
    AVRO_ENUM,  /* `argument`: the first of its symbols; `count`: how many it has. */
    AVRO_UNION, /* `count`: how many branches. */
    AVRO_RECORD,
    AVRO_ARRAY, /* Of what takes a byte at least. */
    AVRO_MAP    /* Its keys' column is the one behind its own. */
};

/* How a column keeps values. Those of lists and structs have inner columns behind them. */
enum {
    KEPT_BITS,
    KEPT_INT,
    KEPT_LONG,
    KEPT_MILLIS, /* Milliseconds, kept as microseconds. */
    KEPT_FLOAT,
    KEPT_DOUBLE,
    KEPT_BYTES,
    KEPT_TEXT,
    KEPT_DECIMAL, /* In sixteen bytes; `argument`: its digits at most. */
    KEPT_LIST,
    KEPT_STRUCT,
    KEPT_KINDS
};

/* `next` is the number of what stands behind this one and all that is inside it; a node of which nothing is kept has the
 * column -1. */
typedef struct {
    int32_t kind, argument, count, next, column;
} AvroNode;

typedef struct {
    int32_t kind, argument, next;
    uint8_t *bits;  /* Which values are not null; NULL where there are no nulls. */
    uint8_t *data;  /* Numbers, or the ends of bytes and lists behind a first 0. */
    uint8_t *bytes; /* Of texts and bytes. */
    int64_t room, bytes_room; /* How many values and how many bytes there is room for. */
    int64_t count;
} AvroColumn;

typedef struct {
    const AvroNode *nodes;
    AvroColumn *columns;
    const int32_t *symbol_ends; /* Behind a first 0. */
    const uint8_t *symbols;
    const uint8_t *end, *data_end; /* Of the value, and of all values. */
    int32_t full;                  /* The column that has no room, or -1. */
} AvroWalk;

static const uint8_t KEPT_SIZES[KEPT_KINDS] = {0, 4, 8, 8, 4, 8, 4, 4, 16, 4, 0};

static int32_t *ends_of(const AvroColumn *column) { return (int32_t *)(void *)column->data; }

static void set_bit(uint8_t *bits, int64_t place, int on) {
    int shift = (int)(place & 7);
    bits[place >> 3] = (uint8_t)((bits[place >> 3] & ~(1 << shift)) | (on != 0) << shift);
}

/* The place of one more value, which is null or not; -1 where there is no room. */
static inline int64_t next_place(AvroWalk *walk, AvroColumn *column, int valid) {
    int64_t place = column->count;
    if (place >= column->room) {
        walk->full = (int32_t)(column - walk->columns);
        return -1;
    }
    if (column->bits) set_bit(column->bits, place, valid);
    column->count = place + 1;
    return place;
}

/* As many values as before, of the column and of those inside. */
static void cut(AvroColumn *columns, int32_t number, int64_t count) {
    AvroColumn *column = columns + number;
    if (column->kind >= KEPT_LIST) {
        int64_t inner = column->kind == KEPT_LIST ? ends_of(column)[count] : count;
        for (int32_t child = number + 1; child < column->next; child = columns[child].next) cut(columns, child, inner);
    }
    column->count = count;
}

/* A null: a 0 or nothing, where the column has no nulls and what it is in is null. */
static int keep_null(AvroWalk *walk, int32_t number) {
    AvroColumn *column = walk->columns + number;
    int64_t place = next_place(walk, column, 0);
    if (place < 0) return 0;
    if (column->kind == KEPT_BITS) {
        set_bit(column->data, place, 0);
    } else if (column->kind == KEPT_BYTES || column->kind == KEPT_TEXT || column->kind == KEPT_LIST) {
        ends_of(column)[place + 1] = ends_of(column)[place];
    } else if (column->kind == KEPT_STRUCT) {
        for (int32_t child = number + 1; child < column->next; child = walk->columns[child].next)
            if (!keep_null(walk, child)) return 0;
    } else {
        /* Each of a size that the compiler knows: no call for a few bytes. */
        int size = KEPT_SIZES[column->kind];
        if (size == 8) memset(column->data + place * 8, 0, 8);
        else if (size == 4) memset(column->data + place * 4, 0, 4);
        else memset(column->data + place * 16, 0, 16);
    }
    return 1;
}

static inline int keep_number(AvroWalk *walk, AvroColumn *column, int64_t number) {
    int64_t place = next_place(walk, column, 1);
    if (place < 0) return 0;
    switch (column->kind) {
        case KEPT_BITS: set_bit(column->data, place, number != 0); return 1;
        case KEPT_INT: {
            int32_t small = (int32_t)number;
            memcpy(column->data + place * 4, &small, 4);
            return small == number;
        }
        case KEPT_MILLIS:
            if (number > INT64_MAX / 1000 || number < INT64_MIN / 1000) return 0;
            number *= 1000; /* fall through */
        case KEPT_LONG: memcpy(column->data + place * 8, &number, 8); return 1;
        case KEPT_FLOAT: {
            float narrow = (float)(double)number; /* By way of a double, as in Python. */
            memcpy(column->data + place * 4, &narrow, 4);
            return 1;
        }
        case KEPT_DOUBLE: {
            double real = (double)number;
            memcpy(column->data + place * 8, &real, 8);
            return 1;
        }
        default: return 0;
    }
}

static inline int keep_real(AvroWalk *walk, AvroColumn *column, const uint8_t *at, int size) {
    int64_t place = next_place(walk, column, 1);
    if (place < 0) return 0;
    if (column->kind == KEPT_DOUBLE && size == 4) {
        float narrow;
        memcpy(&narrow, at, 4);
        double real = narrow;
        memcpy(column->data + place * 8, &real, 8);
        return 1;
    }
    if (column->kind != (size == 4 ? KEPT_FLOAT : KEPT_DOUBLE)) return 0;
    memcpy(column->data + place * size, at, (size_t)size);
    return 1;
}

/* Whether bytes are UTF-8 as Python reads it: no surrogates, nothing longer than it has to be. */
static int is_utf8(const uint8_t *at, int64_t size) {
    const uint8_t *end = at + size;
    while (at < end) {
        uint64_t eight;
        while (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) at += 8;
        while (at < end && *at < 0x80) at++;
        if (at == end) return 1;
        uint8_t first = *at++;
        int more = first < 0xC2 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 0;
        if (!more || more > end - at) return 0;
        uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (*at < least || *at > most) return 0;
        for (at++; --more; at++)
            if ((*at & 0xC0) != 0x80) return 0;
    }
    return 1;
}

/* A big-endian number of any size in sixteen bytes; 0 where it has more digits than the column. */
static int keep_decimal(AvroWalk *walk, AvroColumn *column, const uint8_t *at, int64_t size) {
    uint8_t fill = size && *at & 0x80 ? 0xFF : 0;
    while (size > 16 && *at == fill) at++, size--;
    if (size > 16 || (size == 16 && (*at & 0x80) != (fill & 0x80))) return 0;
    __extension__ unsigned __int128 number = fill ? ~(unsigned __int128)0 : 0, limit = 1;
    while (size--) number = number << 8 | *at++;
    for (int32_t digits = column->argument; digits-- > 0;) limit *= 10;
    if ((fill ? -number : number) >= limit) return 0;
    int64_t place = next_place(walk, column, 1);
    if (place < 0) return 0;
    for (int byte = 0; byte < 16; byte++) column->data[place * 16 + byte] = (uint8_t)(number >> 8 * byte);
    return 1;
}

static int keep_bytes(AvroWalk *walk, AvroColumn *column, const uint8_t *at, int64_t size, int checked) {
    if (column->kind == KEPT_DECIMAL) return keep_decimal(walk, column, at, size);
    if (column->kind != KEPT_BYTES && column->kind != KEPT_TEXT) return 0;
    int64_t place = next_place(walk, column, 1);
    if (place < 0) return 0;
    int32_t *ends = ends_of(column);
    int64_t used = ends[place];
    if (size > column->bytes_room - used || size > INT32_MAX - used) {
        walk->full = (int32_t)(column - walk->columns);
        return 0;
    }
    ends[place + 1] = (int32_t)(used + size);
    if (size) memcpy(column->bytes + used, at, (size_t)size);
    return checked || column->kind == KEPT_BYTES || is_utf8(at, size);
}

/* Of the first bytes of sixteen, the bit that ASCII does not have: as many as are taken from behind the middle. */
static const uint8_t NOT_ASCII[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/* As `keep_bytes`. Most texts are short, and ASCII: such a one is copied at once with what is behind it, which the next one
 * overwrites. */
static inline int keep_text(AvroWalk *walk, AvroColumn *column, const uint8_t *at, int64_t size) {
    if (column->kind == KEPT_TEXT && size <= 16 && walk->data_end - at >= 16 && column->count < column->room) {
        int32_t *ends = ends_of(column) + column->count;
        uint64_t text[2], mask[2];
        if (column->bytes_room - ends[0] >= 16 && ends[0] <= INT32_MAX - 16) {
            memcpy(text, at, 16);
            memcpy(mask, NOT_ASCII + 16 - size, 16);
            memcpy(column->bytes + ends[0], text, 16);
            if (!((text[0] & mask[0]) | (text[1] & mask[1]))) {
                ends[1] = ends[0] + (int32_t)size;
                next_place(walk, column, 1);
                return 1;
            }
        }
    }
    return keep_bytes(walk, column, at, size, 0);
}

static const uint8_t *avro_values(AvroWalk *walk, int32_t number, int32_t until, const uint8_t *at);

/* Items in blocks, each behind its count, which is below 0 where the block's size in bytes is told as well. */
static const uint8_t *avro_blocks(AvroWalk *walk, int32_t number, const uint8_t *at) {
    const AvroNode *node = walk->nodes + number;
    AvroColumn *column = node->column < 0 ? NULL : walk->columns + node->column;
    int is_map = node->kind == AVRO_MAP;
    int64_t total = column ? ends_of(column)[column->count] : 0, count, size;
    for (;;) {
        if (!(at = signed_varint(at, walk->end, &count))) return NULL;
        if (!count) break;
        if (count < 0) {
            if (count == INT64_MIN || !(at = signed_varint(at, walk->end, &size))) return NULL;
            count = -count;
        }
        /* An item takes a byte at least: what says that it has more than are left would only ask for room. */
        if (count > walk->end - at || count > INT32_MAX - total) return NULL;
        for (total += count; count--;) {
            const uint8_t *key;
            if (is_map) {
                if (!(at = signed_varint(at, walk->end, &size)) || size < 0 || size > walk->end - at) return NULL;
                key = at;
                at += size;
                if (column && !keep_text(walk, column + 1, key, size)) return NULL;
            }
            if (!(at = avro_values(walk, number + 1, node->next, at))) return NULL;
        }
    }
    if (column) {
        int64_t place = next_place(walk, column, 1);
        if (place < 0) return NULL;
        ends_of(column)[place + 1] = (int32_t)total;
    }
    return at;
}

/* Reads the values of the nodes from `number` to before `until` and keeps them; where the last one ends, or NULL where one is
 * refused or has no room. A record's fields are the nodes behind its own, so no call is needed for them. */
static const uint8_t *avro_values(AvroWalk *walk, int32_t number, int32_t until, const uint8_t *at) {
    const uint8_t *end = walk->end;
    while (number < until) {
        const AvroNode *node = walk->nodes + number;
        number = node->next;
    chosen:;
        AvroColumn *column = node->column < 0 ? NULL : walk->columns + node->column;
        int64_t found;
        switch (node->kind) {
            case AVRO_NULL:
                if (column && !(column->bits && keep_null(walk, node->column))) return NULL;
                break;
            case AVRO_BOOLEAN:
                if (at == end || (column && !keep_number(walk, column, *at != 0))) return NULL;
                at++;
                break;
            case AVRO_INT:
            case AVRO_LONG:
                if (!(at = signed_varint(at, end, &found))) return NULL;
                if (node->kind == AVRO_INT && found != (int32_t)found) return NULL;
                if (column && !keep_number(walk, column, found)) return NULL;
                break;
            case AVRO_FLOAT:
            case AVRO_DOUBLE:
                found = node->kind == AVRO_FLOAT ? 4 : 8;
                if (end - at < found || (column && !keep_real(walk, column, at, (int)found))) return NULL;
                at += found;
                break;
            case AVRO_BYTES:
                if (!(at = signed_varint(at, end, &found)) || found < 0 || found > end - at) return NULL;
                if (column && !keep_text(walk, column, at, found)) return NULL;
                at += found;
                break;
            case AVRO_FIXED:
                found = node->argument;
                if (end - at < found || (column && !keep_bytes(walk, column, at, found, 0))) return NULL;
                at += found;
                break;
            case AVRO_ENUM: {
                if (!(at = signed_varint(at, end, &found)) || found < 0 || found >= node->count) return NULL;
                const int32_t *ends = walk->symbol_ends + node->argument + found;
                if (column && !keep_bytes(walk, column, walk->symbols + ends[0], ends[1] - ends[0], 1)) return NULL;
                break;
            }
            case AVRO_UNION: {
                if (!(at = signed_varint(at, end, &found)) || found < 0 || found >= node->count) return NULL;
                for (node++; found--;) node = walk->nodes + node->next;
                if (node->kind < AVRO_UNION) goto chosen; /* most are: no call for these either */
                if (!(at = avro_values(walk, (int32_t)(node - walk->nodes), node->next, at))) return NULL;
                break;
            }
            case AVRO_RECORD:
                if (column && next_place(walk, column, 1) < 0) return NULL;
                number = (int32_t)(node + 1 - walk->nodes);
                break;
            case AVRO_ARRAY:
            case AVRO_MAP:
                if (!(at = avro_blocks(walk, (int32_t)(node - walk->nodes), at))) return NULL;
                break;
            default: return NULL;
        }
    }
    return at;
}

/* The end of bytes in an Arrow array whose ends take four bytes or eight. */
static int64_t end_at(const uint8_t *ends, int width, int64_t row) {
    int64_t wide;
    int32_t narrow;
    if (width == 8) {
        memcpy(&wide, ends + row * 8, 8);
        return wide;
    }
    memcpy(&narrow, ends + row * 4, 4);
    return narrow;
}

/* Reads values, each from its byte `skipped` on, from `row` up to `rows`, the first column's count. How many rows there
 * are then; where that is less than `rows`, `walk->full` is the column that has no room. What is refused is null, and its row
 * behind the `*refused` that were there. */
static int64_t avro_rows(
    AvroWalk *walk, const uint8_t *data, int64_t data_size, const uint8_t *ends, int width, int64_t skipped, int64_t rows,
    int32_t *refused_rows, int64_t *refused
) {
    walk->full = -1;
    walk->data_end = data + data_size;
    for (int64_t row = walk->columns[0].count; row < rows; row++) {
        int64_t from = end_at(ends, width, row), to = end_at(ends, width, row + 1);
        int is_whole = from >= 0 && to <= data_size && from <= to - skipped;
        walk->end = data + (is_whole ? to : 0);
        if (is_whole && avro_values(walk, 0, walk->nodes->next, data + from + skipped)) continue;
        cut(walk->columns, 0, row);
        if (walk->full < 0 && keep_null(walk, 0)) {
            refused_rows[(*refused)++] = (int32_t)row;
        } else {
            cut(walk->columns, 0, row);
            return row;
        }
    }
    return rows;
}

/* Whether nodes and columns point to what is there, behind themselves, and nodes to columns of their kind. */
static int is_sound(const AvroNode *nodes, int64_t node_count, const AvroColumn *columns, int64_t column_count,
                    int64_t symbol_count) {
    if (node_count < 1 || column_count < 1 || nodes[0].column != 0 || columns[0].kind != KEPT_STRUCT || !columns[0].bits)
        return 0;
    for (int64_t number = 0; number < node_count; number++) {
        const AvroNode *node = nodes + number;
        if (node->next <= number || node->next > node_count || node->column < -1 || node->column >= column_count) return 0;
        if (node->argument < 0 || node->count < 0) return 0;
        if (node->kind == AVRO_ENUM && node->count > symbol_count - node->argument) return 0;
        int64_t children = 0;
        for (int64_t child = number + 1; child < node->next; child = nodes[child].next) {
            if (nodes[child].next <= child || nodes[child].next > node->next) return 0;
            children++;
        }
        if (node->kind == AVRO_UNION && children != node->count) return 0;
        if ((node->kind == AVRO_ARRAY || node->kind == AVRO_MAP) && children != 1) return 0;
        if (node->column < 0) continue;
        const AvroColumn *column = columns + node->column;
        int is_list = node->kind == AVRO_ARRAY || node->kind == AVRO_MAP;
        if (is_list != (column->kind == KEPT_LIST) && node->kind != AVRO_NULL && node->kind != AVRO_UNION) return 0;
        if (node->kind == AVRO_RECORD && column->kind != KEPT_STRUCT) return 0;
        if (node->kind == AVRO_MAP && (column->next < node->column + 2 || column[1].kind != KEPT_TEXT)) return 0;
    }
    for (int64_t number = 0; number < column_count; number++) {
        const AvroColumn *column = columns + number;
        if (column->kind < 0 || column->kind >= KEPT_KINDS || column->argument < 0 || column->argument > 38) return 0;
        if (column->next <= number || column->next > column_count) return 0;
        if (column->kind < KEPT_LIST && column->next != number + 1) return 0;
    }
    return 1;
}

#endif
