// Any registered operator by name and overload, through c10's dispatcher.
#include "shim.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>

#include <sstream>

using c10::IValue;
using c10::TypeKind;

namespace {

IValue coerce(const IValue& value, const c10::TypePtr& type, std::optional<int32_t> repeat);

template <class T, class F>
c10::List<T> list_of(const std::vector<IValue>& items, F take) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const IValue& item : items) list.push_back(take(item));
  return list;
}

// A list with the element type that the schema names: boxed kernels insist on it.
IValue coerce_list(const IValue& value, const c10::TypePtr& element, std::optional<int32_t> repeat) {
  std::vector<IValue> items;
  if (value.isList()) {
    for (const IValue& item : value.toListRef()) items.push_back(coerce(item, element, {}));
  } else if (repeat) {  // `int[2] stride=1` takes one number for both
    items.assign(*repeat, coerce(value, element, {}));
  } else {
    return value;
  }
  switch (element->kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return list_of<int64_t>(items, [](const IValue& item) { return item.toInt(); });
    case TypeKind::FloatType:
      return list_of<double>(items, [](const IValue& item) { return item.toDouble(); });
    case TypeKind::BoolType:
      return list_of<bool>(items, [](const IValue& item) { return item.toBool(); });
    case TypeKind::TensorType:
      return list_of<at::Tensor>(items, [](const IValue& item) { return item.toTensor(); });
    case TypeKind::NumberType:
      return list_of<c10::Scalar>(items, [](const IValue& item) { return item.toScalar(); });
    case TypeKind::StringType:
      return list_of<std::string>(items, [](const IValue& item) { return item.toStringRef(); });
    case TypeKind::OptionalType: {  // Tensor?[]
      auto take = [](const IValue& item) {
        return item.isNone() ? std::nullopt : std::optional<at::Tensor>(item.toTensor());
      };
      return list_of<std::optional<at::Tensor>>(items, take);
    }
    default: {
      c10::impl::GenericList list(element);
      for (IValue& item : items) list.push_back(std::move(item));
      return list;
    }
  }
}

bool is_number(const IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
}

// What Python's argument parser does to `value` when the schema asks for `type`. Boxed kernels
// check the tag of what they are given and convert nothing themselves. An operand of the right
// kind passes through, and a wrong one too: the schema's own check has the better message.
IValue coerce(const IValue& value, const c10::TypePtr& type, std::optional<int32_t> repeat) {
  switch (type->kind()) {
    case TypeKind::OptionalType:
      if (value.isNone()) return value;
      return coerce(value, type->castRaw<c10::OptionalType>()->getElementType(), repeat);
    case TypeKind::ListType:
      if (value.isNone()) return value;
      return coerce_list(value, type->castRaw<c10::ListType>()->getElementType(), repeat);
    case TypeKind::FloatType:
      if (value.isInt()) return static_cast<double>(value.toInt());
      if (value.isBool()) return static_cast<double>(value.toBool());
      if (value.isTensor() && value.toTensor().numel() == 1) return value.toTensor().item<double>();
      return value;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if (value.isBool()) return static_cast<int64_t>(value.toBool());
      if (value.isTensor() && value.toTensor().numel() == 1) return value.toTensor().item<int64_t>();
      return value;
    case TypeKind::BoolType:
      if (value.isInt()) return value.toInt() != 0;
      return value;
    case TypeKind::NumberType:
      if (value.isTensor() && value.toTensor().numel() == 1) return value.toTensor().item();
      return value;
    case TypeKind::TensorType:
      // A wrapped number takes no part in type promotion, as in Python: bf16 * 0.5 is bf16.
      if (is_number(value)) return at::native::wrapped_scalar_tensor(value.toScalar());
      return value;
    case TypeKind::DeviceObjType:
      if (value.isString()) return c10::Device(value.toStringRef());
      return value;
    default:
      return value;
  }
}

// The schema's own check, with its messages. It does not know that a bool is a Scalar too, and
// making it an int would change the type of what `full` and the like make of it.
void check(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  torch::jit::Stack shown = stack;
  for (size_t i = 0; i < shown.size(); ++i) {
    auto type = schema.arguments()[i].type();
    if (auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType();
    if (shown[i].isBool() && type->kind() == TypeKind::NumberType) shown[i] = int64_t{0};
  }
  schema.checkAndNormalizeInputs<c10::Type>(shown);
}

}  // namespace

extern "C" {

// Handles are few and stay for the life of the process; null without an error: no such operator.
const c10::OperatorHandle* wf_op_find(const char* name, const char* overload, char** error) {
  return shim::guarded(error, static_cast<const c10::OperatorHandle*>(nullptr),
                       [&]() -> const c10::OperatorHandle* {
    auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
    return handle ? new c10::OperatorHandle(*handle) : nullptr;
  });
}

size_t wf_op_parameters(const c10::OperatorHandle* op) noexcept { return op->schema().arguments().size(); }
size_t wf_op_results(const c10::OperatorHandle* op) noexcept { return op->schema().returns().size(); }

// Lives as long as the handle.
const char* wf_op_parameter_name(const c10::OperatorHandle* op, size_t index) noexcept {
  return op->schema().arguments()[index].name().c_str();
}

// Null where the schema has no default.
IValue* wf_op_parameter_default(const c10::OperatorHandle* op, size_t index) noexcept {
  const auto& value = op->schema().arguments()[index].default_value();
  return value ? new IValue(*value) : nullptr;
}

// What the schema says of an argument's memory: 0 nothing, 1 a result may share it, 2 it is
// written to.
int wf_op_alias(const c10::OperatorHandle* op, size_t index) noexcept {
  const auto* alias = op->schema().arguments()[index].alias_info();
  return alias == nullptr ? 0 : alias->isWrite() ? 2 : 1;
}

// Whether a result may share an argument's memory.
int wf_op_views(const c10::OperatorHandle* op) noexcept {
  for (const auto& result : op->schema().returns()) {
    if (result.alias_info() != nullptr) return 1;
  }
  return 0;
}

// Whether it draws random numbers, with some arguments at least.
int wf_op_random(const c10::OperatorHandle* op) noexcept { return op->hasTag(at::Tag::nondeterministic_seeded); }

char* wf_op_schema(const c10::OperatorHandle* op) noexcept {
  std::ostringstream text;
  text << op->schema();
  return strdup(text.str().c_str());
}

// Calls with one argument per parameter of the schema; null stands for its default. The
// arguments stay the caller's. `results` has room for what `wf_op_results` says.
int wf_op_call(const c10::OperatorHandle* op, const IValue* const* arguments, IValue** results, char** error) {
  return shim::guarded(error, -1, [&] {
    const auto& formal = op->schema().arguments();
    torch::jit::Stack stack;
    stack.reserve(formal.size());
    for (size_t i = 0; i < formal.size(); ++i) {
      const auto& parameter = formal[i];
      TORCH_CHECK(arguments[i] || parameter.default_value(), "parameter ", parameter.name(),
                  " is missing: ", op->schema());
      const IValue& given = arguments[i] ? *arguments[i] : *parameter.default_value();
      stack.push_back(coerce(given, parameter.type(), parameter.N()));
    }
    check(op->schema(), stack);
    op->callBoxed(stack);
    const size_t expected = op->schema().returns().size();
    TORCH_CHECK(stack.size() == expected, stack.size(), " results instead of ", expected);
    for (size_t i = 0; i < expected; ++i) results[i] = new IValue(std::move(stack[i]));
    return 0;
  });
}

// Every registered operator, one `name.overload` to a line.
char* wf_all_ops(char** error) {
  return shim::guarded(error, static_cast<char*>(nullptr), [] {
    std::string text;
    for (const auto& op : c10::Dispatcher::singleton().getAllOpNames()) {
      text += op.name + "." + op.overload_name + "\n";
    }
    return strdup(text.c_str());
  });
}
}
