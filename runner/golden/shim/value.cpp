// Values that cross between Rust and the dispatcher: made here, taken apart here.
#include "shim.h"

#include <ATen/core/jit_type.h>

using c10::IValue;

namespace {

// The kinds that src/torch/ffi/value.rs knows, by the same numbers.
enum Kind : int {
  NONE = 0,
  BOOL = 1,
  INT = 2,
  DOUBLE = 3,
  COMPLEX = 4,
  STRING = 5,
  DEVICE = 6,
  TENSOR = 7,
  LIST = 8,
  OTHER = -1,
};

}  // namespace

extern "C" {

void wf_text_free(char* text) noexcept { free(text); }

IValue* wf_none() noexcept { return new IValue(); }
IValue* wf_bool(int value) noexcept { return new IValue(value != 0); }
IValue* wf_int(int64_t value) noexcept { return new IValue(value); }
IValue* wf_double(double value) noexcept { return new IValue(value); }
IValue* wf_complex(double re, double im) noexcept { return new IValue(c10::complex<double>(re, im)); }
IValue* wf_string(const char* text, size_t length) noexcept { return new IValue(std::string(text, length)); }
IValue* wf_tensor(const at::Tensor* tensor) noexcept { return new IValue(*tensor); }

IValue* wf_device(const char* text, size_t length, char** error) {
  return shim::guarded(error, static_cast<IValue*>(nullptr),
                       [&] { return new IValue(c10::Device(std::string(text, length))); });
}

// The items stay the caller's. The list has no element type yet: the call gives it the one
// that the operator's schema asks for.
IValue* wf_list(IValue* const* items, size_t count) noexcept {
  c10::impl::GenericList list(c10::AnyType::get());
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) list.push_back(*items[i]);
  return new IValue(std::move(list));
}

void wf_value_free(IValue* value) noexcept { delete value; }

int wf_kind(const IValue* value) noexcept {
  if (value->isNone()) return NONE;
  if (value->isBool()) return BOOL;
  if (value->isInt() || value->isSymInt()) return INT;
  if (value->isDouble() || value->isSymFloat()) return DOUBLE;
  if (value->isComplexDouble()) return COMPLEX;
  if (value->isString()) return STRING;
  if (value->isDevice()) return DEVICE;
  if (value->isTensor()) return TENSOR;
  if (value->isList() || value->isTuple()) return LIST;
  if (value->isSymBool()) return BOOL;
  return OTHER;
}

// Each of the following is called only on a value of its kind. The symbolic ones hold plain
// numbers here, as nothing is traced; one that did not would be an error, not a guess.
int wf_as_bool(const IValue* value, char** error) {
  return shim::guarded(error, 0, [&] { return static_cast<int>(value->toBool()); });
}

int64_t wf_as_int(const IValue* value, char** error) {
  return shim::guarded(error, int64_t{0}, [&] { return value->toInt(); });
}

double wf_as_double(const IValue* value, char** error) {
  return shim::guarded(error, 0.0, [&] { return value->toDouble(); });
}

void wf_as_complex(const IValue* value, double* re, double* im) noexcept {
  auto complex = value->toComplexDouble();
  *re = complex.real();
  *im = complex.imag();
}

// Strings and devices; free with `wf_text_free`.
char* wf_as_text(const IValue* value) noexcept {
  return strdup(value->isDevice() ? value->toDevice().str().c_str() : value->toStringRef().c_str());
}

at::Tensor* wf_as_tensor(const IValue* value) noexcept { return new at::Tensor(value->toTensor()); }

size_t wf_list_length(const IValue* value) noexcept {
  return value->isTuple() ? value->toTupleRef().elements().size() : value->toListRef().size();
}

IValue* wf_list_item(const IValue* value, size_t index) noexcept {
  return new IValue(value->isTuple() ? value->toTupleRef().elements()[index] : value->toListRef()[index]);
}

// The type's own name, for a message about a value of no kind that Rust knows.
char* wf_type_name(const IValue* value) noexcept { return strdup(value->tagKind().c_str()); }
}
