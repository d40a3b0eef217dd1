/* libFuzzer's target for barnabas/wire/_columns.h: `make fuzz`.
 *
 * An input is settings and records, as of fuzz_scan.c. All buffers have their exact size, so that AddressSanitizer sees a
 * byte too many, and what is found has to be columns.
 */
#include <stdlib.h>
#include <string.h>

#include "../../src/barnabas/wire/_columns.h"

enum { SETTINGS = 32 };

static void *room(size_t size) {
    void *made = calloc(1, size);
    if (!made) abort();
    return made;
}

static BinaryColumn column(int64_t rows, int64_t size) {
    return (BinaryColumn){
        .ends = room((size_t)(rows + 1) * 4),
        .bytes = room((size_t)size),
        .validity = room((size_t)(rows + 7) / 8),
        .room = size,
    };
}

static void held(const BinaryColumn *column, int64_t rows) {
    if (column->ends[0] || column->ends[rows] != column->size || column->size > column->room) abort();
    for (int64_t row = 0; row < rows; row++)
        if (column->ends[row] > column->ends[row + 1]) abort();
}

static void freed(BinaryColumn *column) {
    free(column->ends);
    free(column->bytes);
    free(column->validity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SETTINGS) return 0;
    int64_t left = (int64_t)size - SETTINGS, cut = left ? data[24] % (left + 1) : 0;
    int64_t rows = data[25] & 0x80 ? data[25] % 16 : 64, bytes = data[26] & 0x80 ? data[26] % 16 : left;
    uint8_t *source = room((size_t)left);
    if (left) memcpy(source, data + SETTINGS, (size_t)left);
    /* Where fuzz_scan.c has a batch's count, the second section has it; the first is empty unless it is cut off. */
    int64_t sections[2 * BATCH_FIELDS] = {0,   cut,  data[21], data[27], 5,   NO_APPEND_TIME, 0,
                                          cut, left, data[20], data[27], 100, 5,              1};
    memcpy(&sections[BATCH_TIMESTAMP], data, 8);
    if (data[28] & 0x10) memcpy(&sections[BATCH_FIELDS + BATCH_OFFSET], data + 8, 8);
    if (data[28] & 0x20) memcpy(&sections[BATCH_END], data + 16, 8);
    int64_t first = data[29] & 0x80 ? data[29] & 7 : 0;
    BinaryColumn keys = column(rows, bytes), values = column(rows, bytes);
    RecordColumns out = {
        .rows_max = rows,
        .offsets = room((size_t)rows * 8),
        .timestamps = room((size_t)rows * 8),
        .types = room((size_t)rows * 4),
        .header_positions = room((size_t)rows * 8),
        .header_counts = room((size_t)rows * 8),
        .keys = data[28] & 0x40 ? NULL : &keys,
        .values = data[28] & 0x80 ? NULL : &values,
    };
    int64_t found = record_columns(source, left, sections, 2, first, first + 1000, &out);
    if (found > rows) abort();
    if (found >= 0) {
        if (out.keys) held(&keys, found);
        if (out.values) held(&values, found);
        int64_t headers = out.headers < 64 ? out.headers : 64;
        BinaryColumn names = column(headers, bytes), texts = column(headers, bytes);
        int32_t *ends = room((size_t)(found + 1) * 4);
        uint8_t *bits = room((size_t)(found + 7) / 8);
        int64_t all = header_columns(
            source, left, found, out.header_positions, out.header_counts, ends, bits, headers, &names, &texts
        );
        if (all > headers) abort();
        if (all >= 0) {
            held(&names, all);
            held(&texts, all);
            if (ends[found] != all) abort();
        }
        free(ends);
        free(bits);
        freed(&names);
        freed(&texts);
    }
    freed(&keys);
    freed(&values);
    free(out.offsets);
    free(out.timestamps);
    free(out.types);
    free(out.header_positions);
    free(out.header_counts);
    free(source);
    return 0;
}
