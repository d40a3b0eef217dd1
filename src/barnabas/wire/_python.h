/* What the kernel uses of CPython's stable ABI (PEP 384) from 3.11 on, declared here, so that any C compiler builds it:
 * Python's headers are a package of their own on many machines. The layout of what is declared is promised.
 */
#ifndef BARNABAS_PYTHON_H
#define BARNABAS_PYTHON_H

#include <stddef.h>
#include <stdint.h>

typedef ptrdiff_t Py_ssize_t;
typedef struct PyObject {
    Py_ssize_t references;
    struct PyObject *type;
} PyObject;
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
typedef PyObject *(*Fastcall)(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
typedef struct {
    const char *name;
    Fastcall function;
    int flags;
    const char *doc;
} PyMethodDef;
typedef struct {
    PyObject base;
    void *init;
    Py_ssize_t index;
    PyObject *copy;
    const char *name, *doc;
    Py_ssize_t size;
    PyMethodDef *methods;
    void *slots, *traverse, *clear, *free;
} PyModuleDef;

enum { METH_FASTCALL = 0x80, PYBUF_SIMPLE = 0, PYBUF_WRITABLE = 1, STABLE_ABI = 3, PY_NE = 3 };
#define INT_SUBCLASS (1ul << 24)
#define BYTES_SUBCLASS (1ul << 27)
#define STR_SUBCLASS (1ul << 28)

/* Not in the stable ABI, and the same since Python 3.5 (``PyMemAllocatorEx``): weak, so that a Python without them loads
 * this. */
typedef struct {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block);
} Allocator;
enum { RAW_DOMAIN, MEMORY_DOMAIN, OBJECT_DOMAIN };
extern __attribute__((weak)) void PyMem_GetAllocator(int domain, Allocator *allocator);
extern __attribute__((weak)) void PyMem_SetAllocator(int domain, Allocator *allocator);

extern PyObject *PyExc_ValueError;
extern PyObject PyList_Type, PyTuple_Type, PyBool_Type, PyByteArray_Type, _Py_NoneStruct;
extern PyObject *PyModule_Create2(PyModuleDef *definition, int abi);
extern int PyModule_AddIntConstant(PyObject *module, const char *name, long value);
extern PyObject *PyLong_FromLong(long value);
extern PyObject *PyLong_FromLongLong(long long value);
extern long PyLong_AsLong(PyObject *number);
extern long long PyLong_AsLongLong(PyObject *number);
extern PyObject *PyBool_FromLong(long value);
extern PyObject *PyErr_Occurred(void);
extern void PyErr_SetString(PyObject *kind, const char *message);
extern void PyErr_Clear(void);
extern int PyObject_GetBuffer(PyObject *exporter, Py_buffer *view, int flags);
extern void PyBuffer_Release(Py_buffer *view);
extern void Py_IncRef(PyObject *object);
extern void Py_DecRef(PyObject *object);
extern unsigned long PyType_GetFlags(PyObject *type);
extern PyObject *PyType_GenericAlloc(PyObject *type, Py_ssize_t items);
extern PyObject *PyObject_Call(PyObject *callable, PyObject *arguments, PyObject *named);
extern PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
extern PyObject *PyObject_GetItem(PyObject *object, PyObject *key);
extern Py_ssize_t PyObject_Size(PyObject *object);
extern int PyObject_SetAttr(PyObject *object, PyObject *name, PyObject *value);
extern int PyObject_RichCompareBool(PyObject *one, PyObject *other, int operation);
extern PyObject *PyTuple_Pack(Py_ssize_t count, ...);
extern PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t index);
extern Py_ssize_t PyTuple_Size(PyObject *tuple);
extern int PyTuple_SetItem(PyObject *tuple, Py_ssize_t index, PyObject *item);
extern PyObject *PyList_New(Py_ssize_t count);
extern Py_ssize_t PyList_Size(PyObject *list);
extern PyObject *PyList_GetItem(PyObject *list, Py_ssize_t index);
extern int PyList_SetItem(PyObject *list, Py_ssize_t index, PyObject *item);
extern int PyList_Append(PyObject *list, PyObject *item);
extern int PyList_SetSlice(PyObject *list, Py_ssize_t low, Py_ssize_t high, PyObject *items);
extern PyObject *PySlice_New(PyObject *start, PyObject *stop, PyObject *step);
extern PyObject *PyMemoryView_FromObject(PyObject *object);
extern PyObject *PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors);
extern const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size);
extern PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size);
extern char *PyBytes_AsString(PyObject *bytes);
extern Py_ssize_t PyBytes_Size(PyObject *bytes);
extern PyObject *PyByteArray_FromStringAndSize(const char *data, Py_ssize_t size);
extern char *PyByteArray_AsString(PyObject *array);
extern Py_ssize_t PyByteArray_Size(PyObject *array);
extern int PyByteArray_Resize(PyObject *array, Py_ssize_t size);

static uint64_t big_endian(const uint8_t *data, int bytes) {
    uint64_t number = 0;
    while (bytes--) number = number << 8 | *data++;
    return number;
}

#endif
