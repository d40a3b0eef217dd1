/* libFuzzer's target for barnabas/wire/_avro.h: `make fuzz`.
 *
 * An input is a schema's shape, from which nodes and columns are made as avro_plan.py does, and values. All buffers have
 * their exact size, so that AddressSanitizer sees a byte too many; they begin small and grow, and what is found has to be
 * columns.
 */
#include <stdlib.h>
#include <string.h>

#include "../../src/barnabas/wire/_avro.h"

enum { NODES_MAX = 64, SETTINGS = 4 };

typedef struct {
    const uint8_t *at, *end;
    AvroNode nodes[NODES_MAX];
    AvroColumn columns[NODES_MAX];
    int has_bits[NODES_MAX];
    int32_t node_count, column_count;
} Shape;

static const int32_t SYMBOL_ENDS[] = {0, 1, 3, 3};
static const uint8_t SYMBOLS[] = "ABB";

static void *room(size_t size) {
    void *made = calloc(1, size);
    if (!made) abort();
    return made;
}

static uint8_t drawn(Shape *shape) { return shape->at < shape->end ? *shape->at++ : 0; }

static int32_t node_of(Shape *shape, int32_t kind, int32_t argument, int32_t count, int32_t column) {
    shape->nodes[shape->node_count] = (AvroNode){kind, argument, count, shape->node_count + 1, column};
    return shape->node_count++;
}

static int32_t column_of(Shape *shape, int32_t kind, int nullable) {
    int32_t number = shape->column_count++;
    shape->columns[number] = (AvroColumn){.kind = kind, .argument = 9, .next = number + 1};
    shape->has_bits[number] = nullable;
    return number;
}

static int32_t kept_of(int32_t kind, uint8_t choice) {
    static const int32_t of_int[] = {KEPT_INT, KEPT_LONG, KEPT_FLOAT, KEPT_DOUBLE, KEPT_MILLIS};
    static const int32_t of_bytes[] = {KEPT_BYTES, KEPT_TEXT, KEPT_DECIMAL};
    switch (kind) {
        case AVRO_BOOLEAN: return KEPT_BITS;
        case AVRO_INT:
        case AVRO_LONG: return of_int[choice % 5];
        case AVRO_FLOAT: return choice & 1 ? KEPT_FLOAT : KEPT_DOUBLE;
        case AVRO_DOUBLE: return KEPT_DOUBLE;
        case AVRO_ENUM: return KEPT_TEXT;
        default: return of_bytes[choice % 3];
    }
}

static void value_of(Shape *shape, int depth, int dropped, int nullable);

static void nested_of(Shape *shape, int32_t kind, int depth, int dropped, int nullable, int count) {
    int32_t column = dropped ? -1 : column_of(shape, kind == AVRO_RECORD ? KEPT_STRUCT : KEPT_LIST, nullable);
    int32_t node = node_of(shape, kind, 0, 0, column);
    if (kind == AVRO_MAP && !dropped) column_of(shape, KEPT_TEXT, 0);
    if (kind != AVRO_RECORD) count = 1;
    for (int child = 0; child < count; child++) {
        int is_dropped = dropped || (kind == AVRO_RECORD && drawn(shape) % 5 == 0);
        value_of(shape, depth - 1, is_dropped, 0);
    }
    shape->nodes[node].next = shape->node_count;
    if (!dropped) shape->columns[column].next = shape->column_count;
}

static void value_of(Shape *shape, int depth, int dropped, int nullable) {
    uint8_t choice = drawn(shape);
    int32_t kind = AVRO_BOOLEAN + choice % (AVRO_MAP - AVRO_BOOLEAN + 1);
    int is_full = shape->node_count > NODES_MAX - 24 || shape->column_count > NODES_MAX - 24;
    if (kind == AVRO_UNION && !nullable && !is_full) {
        int32_t node = node_of(shape, AVRO_UNION, 0, 3, -1);
        node_of(shape, AVRO_NULL, 0, 0, dropped ? -1 : shape->column_count);
        node_of(shape, AVRO_REFUSED, 0, 0, -1);
        value_of(shape, depth, dropped, 1);
        shape->nodes[node].next = shape->node_count;
        return;
    }
    if (kind >= AVRO_RECORD && depth > 0 && !is_full) {
        nested_of(shape, kind, depth, dropped, nullable, 1 + choice / 64);
        return;
    }
    if (kind >= AVRO_UNION) kind = AVRO_LONG;
    int32_t column = dropped ? -1 : column_of(shape, kept_of(kind, choice / 16), nullable);
    node_of(shape, kind, kind == AVRO_FIXED ? 1 + choice / 32 : 0, kind == AVRO_ENUM ? 3 : 0, column);
}

/* Room for so many values, and so many bytes, with what was in it. */
static void give(AvroColumn *column, int has_bits, int64_t values, int64_t bytes) {
    int has_ends = column->kind == KEPT_BYTES || column->kind == KEPT_TEXT || column->kind == KEPT_LIST;
    size_t size = (size_t)(values + has_ends) * KEPT_SIZES[column->kind];
    if (column->kind == KEPT_BITS) size = (size_t)(values + 7) / 8;
    uint8_t *data = room(size), *bits = has_bits ? room((size_t)(values + 7) / 8) : NULL, *kept = room((size_t)bytes);
    int64_t room_before = column->room, before = room_before * KEPT_SIZES[column->kind] + has_ends * 4;
    if (column->kind == KEPT_BITS) before = (room_before + 7) / 8;
    if (column->data) memcpy(data, column->data, (size_t)before);
    if (column->bits) memcpy(bits, column->bits, (size_t)(room_before + 7) / 8);
    if (column->bytes) memcpy(kept, column->bytes, (size_t)column->bytes_room);
    free(column->data);
    free(column->bits);
    free(column->bytes);
    column->data = data;
    column->bits = bits;
    column->bytes = kept;
    column->room = values;
    column->bytes_room = bytes;
}

static void held(const Shape *shape, int32_t number, int64_t count) {
    const AvroColumn *column = shape->columns + number;
    if (column->count != count || count > column->room) abort();
    int64_t inner = count;
    if (column->kind == KEPT_BYTES || column->kind == KEPT_TEXT || column->kind == KEPT_LIST) {
        const int32_t *ends = ends_of(column);
        if (ends[0]) abort();
        for (int64_t row = 0; row < count; row++)
            if (ends[row] > ends[row + 1]) abort();
        inner = ends[count];
        if (column->kind != KEPT_LIST && inner > column->bytes_room) abort();
        for (int64_t row = 0; column->kind == KEPT_TEXT && row < count; row++)
            if (!is_utf8(column->bytes + ends[row], ends[row + 1] - ends[row])) abort();
    }
    for (int32_t child = number + 1; child < column->next; child = shape->columns[child].next) held(shape, child, inner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) return 0;
    Shape shape = {.at = data + SETTINGS, .end = data + size};
    size_t of_shape = data[0] % 32, rows = 1 + data[1] % 8;
    if (of_shape < size - SETTINGS) shape.end = data + SETTINGS + of_shape;
    const uint8_t *values_from = shape.end;
    nested_of(&shape, AVRO_RECORD, 3, 0, 1, 1 + data[2] % 6);
    int64_t left = data + size - values_from;
    uint8_t *values = room((size_t)left);
    if (left) memcpy(values, values_from, (size_t)left);
    int32_t *ends = room((rows + 1) * 4), *refused_rows = room(rows * 4);
    for (size_t row = 0; row <= rows; row++) ends[row] = (int32_t)((uint64_t)left * row / rows);
    if (data[3] & 0x80) ends[data[3] % (rows + 1)] = (int32_t)(data[3] * 0x01010101u);
    for (int32_t number = 0; number < shape.column_count; number++)
        give(shape.columns + number, shape.has_bits[number], 1, 1);
    if (!is_sound(shape.nodes, shape.node_count, shape.columns, shape.column_count, 3)) abort();
    AvroWalk walk = {.nodes = shape.nodes, .columns = shape.columns, .symbol_ends = SYMBOL_ENDS, .symbols = SYMBOLS};
    int64_t refused = 0, skipped = data[3] & 1;
    uint8_t *from = (uint8_t *)ends;
    int64_t all = (int64_t)rows;
    while (avro_rows(&walk, values, left, from, 4, skipped, all, refused_rows, &refused) < all) {
        AvroColumn *full = shape.columns + walk.full;
        give(full, shape.has_bits[walk.full], full->room * 2, full->bytes_room * 2);
    }
    if (refused > (int64_t)rows) abort();
    held(&shape, 0, (int64_t)rows);
    for (int32_t number = 0; number < shape.column_count; number++) {
        free(shape.columns[number].data);
        free(shape.columns[number].bits);
        free(shape.columns[number].bytes);
    }
    free(values);
    free(ends);
    free(refused_rows);
    return 0;
}
