/* `barnabas.wire._kernel`: functions over the records of a batch and over messages, for CPython's stable ABI.
 *
 * Built by hatch_build.py; where it is not, barnabas/wire/scan.py and codec.py do the same in Python, and
 * barnabas/spark/kernels.py by numba.
 */
#define _DEFAULT_SOURCE /* madvise, which C11 does not have */
#include <stdlib.h>

#include "_avro.h"
#include "_codec.h"
#include "_columns.h"
#include "_python.h"
#include "_scan.h"
#include "_slabs.h"

enum { HEADER_BYTES = 61, BASE_TIMESTAMP_AT = 27, MAX_TIMESTAMP_AT = 35, RECORD_COUNT_AT = 57 };

static PyObject *wrong(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

/* check(batch, now, before_max, after_max, flags): 0 where all is well with an uncompressed batch and its header's
 * max_timestamp, 1 where that alone is another, 2 where a scan will tell. */
static PyObject *check(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 5) return wrong("check takes five arguments");
    Scan scan = {0};
    scan.now = PyLong_AsLongLong(arguments[1]);
    scan.before_max = PyLong_AsLongLong(arguments[2]);
    scan.after_max = PyLong_AsLongLong(arguments[3]);
    scan.flags = (int32_t)PyLong_AsLong(arguments[4]) | STRICT;
    if (PyErr_Occurred()) return NULL;
    Py_buffer batch;
    if (PyObject_GetBuffer(arguments[0], &batch, PYBUF_SIMPLE) < 0) return NULL;
    const uint8_t *data = batch.buf;
    long told = 2;
    if (batch.len >= HEADER_BYTES) {
        int64_t max_timestamp = (int64_t)big_endian(data + MAX_TIMESTAMP_AT, 8);
        scan.base_timestamp = (int64_t)big_endian(data + BASE_TIMESTAMP_AT, 8);
        scan.append_time = max_timestamp;
        scan.record_count = (int32_t)big_endian(data + RECORD_COUNT_AT, 4);
        scan.max_timestamp = -1;
        feed(&scan, data + HEADER_BYTES, (size_t)batch.len - HEADER_BYTES);
        if (!finish(&scan) && !scan.error_count) told = scan.max_timestamp != max_timestamp;
    }
    PyBuffer_Release(&batch);
    return PyLong_FromLong(told);
}

/* feed(scan, piece, is_last): the fault, 0 for none. `scan` is a writable buffer that begins with a `Scan`. */
static PyObject *feed_piece(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 3) return wrong("feed takes three arguments");
    long is_last = PyLong_AsLong(arguments[2]);
    if (is_last == -1 && PyErr_Occurred()) return NULL;
    Py_buffer state, piece;
    if (PyObject_GetBuffer(arguments[0], &state, PYBUF_WRITABLE) < 0) return NULL;
    if (PyObject_GetBuffer(arguments[1], &piece, PYBUF_SIMPLE) < 0) {
        PyBuffer_Release(&state);
        return NULL;
    }
    Scan *scan = state.buf;
    long fault = -1;
    if (state.len >= (Py_ssize_t)sizeof(Scan) && (uintptr_t)scan % _Alignof(Scan) == 0 && scan->error_capacity >= 0 &&
        (state.len - (Py_ssize_t)sizeof(Scan)) / (Py_ssize_t)sizeof(RecordError) >= scan->error_capacity) {
        fault = feed(scan, piece.buf, (size_t)piece.len);
        if (is_last) fault = finish(scan);
    }
    PyBuffer_Release(&piece);
    PyBuffer_Release(&state);
    return fault < 0 ? wrong("the state of a scan is too small for what it says") : PyLong_FromLong(fault);
}

/* The buffers of arguments, of which the first `read` are only read; 0 where one is none, with an error and none taken. */
static int buffers(PyObject *const *arguments, int count, int read, Py_buffer *views) {
    for (int taken = 0; taken < count; taken++) {
        if (PyObject_GetBuffer(arguments[taken], &views[taken], taken < read ? PYBUF_SIMPLE : PYBUF_WRITABLE) < 0) {
            while (taken--) PyBuffer_Release(&views[taken]);
            return 0;
        }
    }
    return 1;
}

static void release(Py_buffer *views, int count) {
    while (count--) PyBuffer_Release(&views[count]);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A column of bytes in three buffers: ends, bytes, validity. */
static BinaryColumn binary_column(const Py_buffer *views) {
    return (BinaryColumn){.ends = views[0].buf, .bytes = views[1].buf, .validity = views[2].buf, .room = views[1].len};
}

/* How many rows it has ends and bits for. */
static int64_t rows_of(const Py_buffer *views) { return least(views[0].len / 4 - 1, views[2].len * 8); }

/* columns(source, sections, first, end, with keys, with values, offsets, timestamps, types, and of keys and of values
 * their ends, bytes and validity, positions of headers, their counts, totals): rows, or a number of `record_columns`. */
static PyObject *columns(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    enum { OFFSETS, TIMESTAMPS, TYPES, KEYS, VALUES = KEYS + 3, POSITIONS = VALUES + 3, COUNTS, TOTALS, ALL };
    if (count != 6 + ALL) return wrong("columns takes eighteen arguments");
    int64_t first = PyLong_AsLongLong(arguments[2]), end = PyLong_AsLongLong(arguments[3]);
    long with_keys = PyLong_AsLong(arguments[4]), with_values = PyLong_AsLong(arguments[5]);
    if (PyErr_Occurred()) return NULL;
    Py_buffer read[2], out[ALL];
    if (!buffers(arguments, 2, 2, read)) return NULL;
    if (!buffers(arguments + 6, ALL, 0, out)) {
        release(read, 2);
        return NULL;
    }
    BinaryColumn keys = binary_column(out + KEYS), values = binary_column(out + VALUES);
    RecordColumns made = {
        .rows_max = least(least(out[OFFSETS].len, out[TIMESTAMPS].len), least(out[POSITIONS].len, out[COUNTS].len)) / 8,
        .offsets = out[OFFSETS].buf,
        .timestamps = out[TIMESTAMPS].buf,
        .types = out[TYPES].buf,
        .header_positions = out[POSITIONS].buf,
        .header_counts = out[COUNTS].buf,
        .keys = with_keys ? &keys : NULL,
        .values = with_values ? &values : NULL,
    };
    made.rows_max = least(made.rows_max, out[TYPES].len / 4);
    if (with_keys) made.rows_max = least(made.rows_max, rows_of(out + KEYS));
    if (with_values) made.rows_max = least(made.rows_max, rows_of(out + VALUES));
    int64_t rows = NO_ROOM;
    if (made.rows_max >= 0 && out[TOTALS].len >= 48) {
        int64_t batches = read[1].len / (8 * BATCH_FIELDS), *totals = out[TOTALS].buf;
        rows = record_columns(read[0].buf, read[0].len, read[1].buf, batches, first, end, &made);
        totals[0] = keys.size;
        totals[1] = keys.nulls;
        totals[2] = values.size;
        totals[3] = values.nulls;
        totals[4] = made.headers;
        totals[5] = made.bare;
    }
    release(out, ALL);
    release(read, 2);
    return PyLong_FromLongLong(rows);
}

/* headers(source, rows, positions, counts, ends and validity of the lists, ends and bytes of the names, ends, bytes and
 * validity of the values, totals): headers, or a number of `header_columns`. */
static PyObject *headers(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    enum { LIST_ENDS, LIST_VALIDITY, NAME_ENDS, NAMES, VALUES, TOTALS = VALUES + 3, ALL };
    if (count != 4 + ALL) return wrong("headers takes twelve arguments");
    int64_t rows = PyLong_AsLongLong(arguments[1]);
    if (PyErr_Occurred()) return NULL;
    Py_buffer source, given[2], out[ALL];
    if (!buffers(arguments, 1, 1, &source)) return NULL;
    if (!buffers(arguments + 2, 2, 2, given)) {
        release(&source, 1);
        return NULL;
    }
    if (!buffers(arguments + 4, ALL, 0, out)) {
        release(given, 2);
        release(&source, 1);
        return NULL;
    }
    BinaryColumn values = binary_column(out + VALUES);
    BinaryColumn names = {.ends = out[NAME_ENDS].buf, .bytes = out[NAMES].buf, .room = out[NAMES].len};
    int64_t rows_max = least(least(given[0].len, given[1].len) / 8, out[LIST_ENDS].len / 4 - 1);
    int64_t headers_max = least(out[NAME_ENDS].len / 4 - 1, rows_of(out + VALUES));
    int64_t found = NO_ROOM;
    if (rows >= 0 && rows <= least(rows_max, out[LIST_VALIDITY].len * 8) && headers_max >= 0 && out[TOTALS].len >= 24) {
        int64_t *totals = out[TOTALS].buf;
        found = header_columns(
            source.buf, source.len, rows, given[0].buf, given[1].buf, out[LIST_ENDS].buf, out[LIST_VALIDITY].buf,
            headers_max, &names, &values
        );
        totals[0] = names.size;
        totals[1] = values.size;
        totals[2] = values.nulls;
    }
    release(out, ALL);
    release(given, 2);
    release(&source, 1);
    return PyLong_FromLongLong(found);
}

/* What three buffers of a column, its bits, data and bytes, have room for. */
static void give_room(AvroColumn *column, const Py_buffer *views) {
    column->bits = views[0].len ? views[0].buf : NULL;
    column->data = views[1].buf;
    column->bytes = views[2].buf;
    column->bytes_room = views[2].len;
    column->room = column->bits ? views[0].len * 8 : INT64_MAX;
    if (column->kind == KEPT_BITS) column->room = least(column->room, views[1].len * 8);
    if (column->kind > KEPT_BITS && column->kind < KEPT_STRUCT) {
        int has_ends = column->kind == KEPT_BYTES || column->kind == KEPT_TEXT || column->kind == KEPT_LIST;
        column->room = least(column->room, views[1].len / KEPT_SIZES[column->kind] - has_ends);
    }
}

enum { NODES, COLUMN_TABLE, SYMBOL_ENDS, SYMBOLS, VALUES, VALUE_ENDS, AVRO_READ, REFUSED = AVRO_READ, STATE, AVRO_BUFFERS };

/* Reads on with the columns' buffers as far as there is room; -1 where what was given does not fit together. */
static int64_t avro_columns(
    const Py_buffer *given, const Py_buffer *views, AvroColumn *columns, int64_t column_count, int width, int64_t skipped,
    int64_t rows
) {
    const int32_t *table = given[COLUMN_TABLE].buf;
    int64_t *state = given[STATE].buf;
    for (int64_t number = 0; number < column_count; number++, table += 3) {
        columns[number] = (AvroColumn){.kind = table[0], .argument = table[1], .next = table[2]};
        if (table[0] < 0 || table[0] >= KEPT_KINDS) return -1;
        give_room(columns + number, views + 3 * number);
        columns[number].count = state[2 + number];
        if (columns[number].count < 0 || columns[number].count > columns[number].room) return -1;
    }
    AvroWalk walk = {
        .nodes = given[NODES].buf, .columns = columns, .symbol_ends = given[SYMBOL_ENDS].buf, .symbols = given[SYMBOLS].buf,
    };
    int64_t nodes = given[NODES].len / (Py_ssize_t)sizeof(AvroNode), symbols = given[SYMBOL_ENDS].len / 4 - 1;
    if (!is_sound(walk.nodes, nodes, columns, column_count, symbols)) return -1;
    if (state[0] < 0 || rows < 0 || rows > given[REFUSED].len / 4 || rows > given[VALUE_ENDS].len / width - 1) return -1;
    int64_t found = avro_rows(
        &walk, given[VALUES].buf, given[VALUES].len, given[VALUE_ENDS].buf, width, skipped, rows, given[REFUSED].buf, state
    );
    state[1] = walk.full;
    for (int64_t number = 0; number < column_count; number++) state[2 + number] = columns[number].count;
    return found;
}

/* avro(nodes, columns, ends of symbols, symbols, values, their ends, rows refused, state, size of an end, bytes skipped,
 * rows, buffers): how many rows were read, of `_avro.h`. `state` is how many were refused, the column without room, and how
 * many values each column has; `buffers` is a list of each column's bits, data and bytes. */
static PyObject *avro(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != AVRO_BUFFERS + 4) return wrong("avro takes twelve arguments");
    long width = PyLong_AsLong(arguments[AVRO_BUFFERS]);
    int64_t skipped = PyLong_AsLongLong(arguments[AVRO_BUFFERS + 1]), rows = PyLong_AsLongLong(arguments[AVRO_BUFFERS + 2]);
    if (PyErr_Occurred()) return NULL;
    PyObject *list = arguments[AVRO_BUFFERS + 3];
    Py_ssize_t listed = PyList_Size(list);
    if (listed < 0) return NULL;
    Py_buffer given[AVRO_BUFFERS];
    if (!buffers(arguments, AVRO_BUFFERS, AVRO_READ, given)) return NULL;
    int64_t column_count = given[COLUMN_TABLE].len / 12, found = -1;
    Py_buffer *views = calloc((size_t)listed + 1, sizeof(Py_buffer));
    AvroColumn *columns = calloc((size_t)column_count + 1, sizeof(AvroColumn));
    Py_ssize_t taken = 0;
    while (views && taken < listed && !PyObject_GetBuffer(PyList_GetItem(list, taken), views + taken, PYBUF_WRITABLE)) taken++;
    int is_whole = views && columns && taken == listed && listed == 3 * column_count &&
                   given[STATE].len >= 8 * (2 + column_count) && (width == 4 || width == 8) && skipped >= 0;
    if (is_whole) found = avro_columns(given, views, columns, column_count, (int)width, skipped, rows);
    if (views) release(views, (int)taken);
    free(views);
    free(columns);
    release(given, AVRO_BUFFERS);
    if (found >= 0) return PyLong_FromLongLong(found);
    return PyErr_Occurred() ? NULL : wrong("the columns of Avro values do not fit together");
}

/* slabs(back): keeps small objects in slabs, from its first call on; gives empty ones back where `back` is not 0. How
 * many bytes the others have; -1 where small objects are left alone. */
static PyObject *slabs_in_use(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 1) return wrong("slabs takes one argument");
    long back = PyLong_AsLong(arguments[0]);
    if (back == -1 && PyErr_Occurred()) return NULL;
    if (!use_slabs()) return PyLong_FromLong(-1);
    if (back) give_slabs_back();
    return PyLong_FromLongLong((long long)slabs_used << SLAB_BITS);
}

/* made_for(what) -> what: from which slabs small objects come from now on, those of what may last, passes or stays (0 to
 * 2, `wire/kernel.py`). Returns from which they came. */
static PyObject *made_for(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    if (count != 1) return wrong("made_for takes one argument");
    long what = PyLong_AsLong(arguments[0]);
    if (what == -1 && PyErr_Occurred()) return NULL;
    if (what < 0 || what >= HEAPS) return wrong("there are slabs for what may last, passes or stays");
    return PyLong_FromLong(choose_slabs((int)what));
}

static PyMethodDef methods[] = {
    {"check", check, METH_FASTCALL, "check(batch, now, before_max, after_max, flags) -> int"},
    {"feed", feed_piece, METH_FASTCALL, "feed(scan, piece, is_last) -> int"},
    {"decode", decode, METH_FASTCALL, "decode(table, constants, budget, buffer, offset) -> (message, offset) | None"},
    {"encode", encode, METH_FASTCALL, "encode(table, constants, message, open, parts) -> bytearray | None"},
    {"frame", frame, METH_FASTCALL, "frame(table, constants, message, head) -> list | None"},
    {"header", header, METH_FASTCALL, "header(versions, type, frame) -> (header, offset) | None"},
    {"make", make, METH_FASTCALL, "make(class, slots, value, ..) -> struct"},
    {"errors", errors, METH_FASTCALL, "errors(table, constants, message) -> int"},
    {"columns", columns, METH_FASTCALL, "columns(source, sections, first, end, ..) -> int"},
    {"headers", headers, METH_FASTCALL, "headers(source, rows, positions, counts, ..) -> int"},
    {"avro", avro, METH_FASTCALL, "avro(nodes, columns, .., buffers) -> int"},
    {"slabs", slabs_in_use, METH_FASTCALL, "slabs(back) -> int"},
    {"made_for", made_for, METH_FASTCALL, "made_for(what) -> int"},
    {"slot_of", slot_of, METH_FASTCALL, "slot_of(class, name, size) -> int"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {
    {1, NULL}, NULL, 0, NULL, "_kernel", "See barnabas.wire.scan.", -1, methods, NULL, NULL, NULL, NULL,
};

__attribute__((visibility("default"))) PyObject *PyInit__kernel(void) {
    PyObject *made = PyModule_Create2(&module, STABLE_ABI);
    if (made && PyModule_AddIntConstant(made, "SCAN_BYTES", (long)sizeof(Scan)) < 0) return NULL;
    return made;
}
