// Inputs and outputs of ops in host memory. Included only by record.cpp.
//
// libtorch provides inputs when an op begins and outputs when it ends, and the inputs are no longer
// available then. This code therefore holds references to the inputs while an op runs. It does so
// only for ops and not for autograd nodes, because nodes depend on reference counts. Tensors that
// an op overwrites are copied before.

#pragma once

#include "inputs.h"
#include "record.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace {

using TensorReference = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// Maximum size in bytes of a copied tensor. The previous value of a larger overwritten tensor is
// unknown.
constexpr size_t MOST_COPIED = size_t{1} << 26;

bool is_defined(const c10::TensorImpl* tensor) {
  return tensor != c10::UndefinedTensorImpl::singleton();
}

// Returns true for floating-point tensors, which can contain NaN.
bool has_fractions(const c10::TensorImpl* tensor) {
  return is_defined(tensor) && c10::isFloatingType(c10::typeMetaToScalarType(tensor->dtype()));
}

// Returns true if the elements are in host memory as described by sizes and strides.
bool is_in_host_memory(const c10::TensorImpl* tensor) {
  return tensor->layout() == c10::kStrided && tensor->device().is_cpu() &&
         !tensor->is_nested() && !tensor->has_symbolic_sizes_strides() && tensor->has_storage();
}

MlprofTchTensor describe(const c10::TensorImpl* tensor) {
  MlprofTchTensor found{};
  found.type = code_of(c10::typeMetaToScalarType(tensor->dtype()));
  if (!is_in_host_memory(tensor)) {
    return found;
  }
  const c10::IntArrayRef sizes = tensor->sizes();
  found.sizes = sizes.data();
  found.strides = tensor->strides().data();
  found.dimensions = sizes.size();
  // `data()` is avoided, because it would copy a copy-on-write tensor. An empty tensor may have a
  // null address, so it gets this one.
  static const char nothing = 0;
  found.address = tensor->numel() == 0 ? &nothing : tensor->storage().data();
  if (found.address != nullptr && tensor->numel() > 0) {
    found.address = static_cast<const char*>(found.address) +
                    tensor->storage_offset() * static_cast<int64_t>(tensor->dtype().itemsize());
  }
  return found;
}

// Returns the version of the tensor, which changes with each write.
int64_t version_of(const c10::TensorImpl* tensor) {
  const bool is_inference = const_cast<c10::TensorImpl*>(tensor)->is_inference();
  return is_inference ? -1 : static_cast<int64_t>(tensor->version_counter().current_version());
}

const void* storage_of(const c10::TensorImpl* tensor) {
  return tensor->has_storage() ? tensor->storage().unsafeGetStorageImpl() : nullptr;
}

bool ends_with(const char* text, const char* end) {
  const size_t length = std::strlen(text);
  const size_t end_length = std::strlen(end);
  return length >= end_length && std::strcmp(text + length - end_length, end) == 0;
}

// Returns true if an op leaves its output uninitialised.
bool leaves_empty(const char* name) {
  return std::strstr(name, "empty") != nullptr || std::strstr(name, "resize") != nullptr;
}

// Returns true if an op only returns the result of an inner op, which was already reported.
bool only_calls(const char* name) {
  for (const char* one :
       {"aten::_convolution", "aten::_to_copy", "aten::clone", "aten::contiguous", "aten::conv1d",
        "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::cross_entropy_loss",
        "aten::linear", "aten::log_softmax", "aten::max_pool2d", "aten::nll_loss",
        "aten::nll_loss_nd", "aten::softmax", "aten::to"}) {
    if (std::strcmp(name, one) == 0) {
      return true;
    }
  }
  return false;
}

// Returns true if an op changes its first input.
bool is_in_place(const char* name) { return ends_with(name, "_") && !ends_with(name, "__"); }

// Returns true if an in-place op does not read the previous value.
bool only_writes(const char* name) {
  for (const char* one : {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_",
                          "exponential_", "geometric_", "cauchy_", "set_"}) {
    if (ends_with(name, one) && !ends_with(name, "masked_fill_") && !ends_with(name, "index_fill_") &&
        !ends_with(name, "index_copy_")) {
      return true;
    }
  }
  return false;
}

// An input that is held while its op runs.
struct HeldInput {
  TensorReference tensor;
  int64_t version;
  // False if the input is not reported: the op overwrites it, it is not a floating-point tensor, or
  // it was not copied.
  bool is_input;
  // The previous value, if the op changes the input.
  std::vector<char> copy;
};

// Data of an op between its beginning and its end.
struct OutputContext final : at::ObserverContext {
  c10::SmallVector<HeldInput, 4> inputs;
  // Non-finite number arguments.
  c10::SmallVector<double, 2> numbers;
  bool knows_inputs = true;
  bool is_looked_at = true;
  // True if the op may return an input that it has changed.
  bool changes_inputs = false;

  void begin(const at::RecordFunction& op);
  template <typename Tell>
  void end(const at::RecordFunction& op, const Tell& tell);
  void describe_inputs(c10::SmallVectorImpl<MlprofTchTensor>& found) const;

 private:
  void hold(const c10::IValue& value, bool is_overwritten, bool is_only_written);
  bool is_handed_on(const c10::TensorImpl* output) const;
};

void OutputContext::hold(const c10::IValue& value, bool is_overwritten, bool is_only_written) {
  const c10::TensorImpl* tensor = value.unsafeToTensorImpl();
  if (!is_defined(tensor)) {
    return;
  }
  HeldInput held{value.toTensor().getIntrusivePtr(), version_of(tensor),
                 has_fractions(tensor) && !is_only_written, {}};
  if (held.is_input && is_overwritten) {
    const size_t bytes = tensor->numel() * tensor->dtype().itemsize();
    // Non-contiguous tensors are not copied, because they are rarely overwritten.
    if (bytes > MOST_COPIED || !is_in_host_memory(tensor) || !tensor->is_contiguous()) {
      held.is_input = false;
      knows_inputs = false;
    } else if (bytes > 0) {
      const char* address = static_cast<const char*>(describe(tensor).address);
      held.copy.assign(address, address + bytes);
    }
  }
  inputs.push_back(std::move(held));
}

void OutputContext::begin(const at::RecordFunction& op) {
  const char* name = op.name();
  is_looked_at = !leaves_empty(name) && !only_calls(name);
  if (!is_looked_at) {
    return;
  }
  const bool changes_first = is_in_place(name);
  const bool only_writes_first = changes_first && only_writes(name);
  const char* overload = op.overload_name();
  // The outputs of such an op are among its last inputs.
  const bool has_out = ends_with(overload, "out");
  const size_t outs = has_out ? op.num_outputs() : 0;
  changes_inputs = changes_first || has_out;
  const c10::ArrayRef<const c10::IValue> all = op.inputs();
  bool is_first = true;
  for (size_t place = 0; place < all.size(); ++place) {
    const c10::IValue& input = all[place];
    const bool is_out = place + outs >= all.size();
    if (input.isTensor()) {
      hold(input, is_first && changes_first, is_out || (is_first && only_writes_first));
      is_first = false;
    } else if (input.isTensorList()) {
      for (const c10::IValue& tensor : input.toListRef()) {
        hold(tensor, false, is_out);
      }
      knows_inputs = knows_inputs && !(is_first && changes_first);
      is_first = false;
    } else if (input.isDouble() && !std::isfinite(input.toDouble())) {
      numbers.push_back(input.toDouble());
    }
  }
}

void OutputContext::describe_inputs(c10::SmallVectorImpl<MlprofTchTensor>& found) const {
  for (const HeldInput& input : inputs) {
    if (!input.is_input) {
      continue;
    }
    MlprofTchTensor one = describe(input.tensor.get());
    if (!input.copy.empty()) {
      one.address = input.copy.data();
    }
    found.push_back(one);
  }
}

// Returns true if the output is an unchanged input or a view of one.
bool OutputContext::is_handed_on(const c10::TensorImpl* output) const {
  for (const HeldInput& input : inputs) {
    const c10::TensorImpl* given = input.tensor.get();
    if (given == output) {
      // The version alone is not sufficient: inner ops and inference mode do not update it.
      return !changes_inputs && input.version == version_of(output);
    }
    if (storage_of(output) != nullptr && storage_of(given) == storage_of(output)) {
      return true;
    }
  }
  return false;
}

template <typename Tell>
void OutputContext::end(const at::RecordFunction& op, const Tell& tell) {
  const std::vector<c10::IValue>& all = op.outputs();
  // A boxed call may have more values on the stack.
  const size_t count = std::min<size_t>(op.num_outputs(), all.size());
  const auto look_at = [&](const c10::IValue& output) {
    const c10::TensorImpl* tensor = output.unsafeToTensorImpl();
    if (!has_fractions(tensor)) {
      return;
    }
    if (is_looked_at && !is_handed_on(tensor)) {
      tell(output);
    }
  };
  for (size_t place = all.size() - count; place < all.size(); ++place) {
    if (all[place].isTensor()) {
      look_at(all[place]);
    } else if (all[place].isTensorList()) {
      for (const c10::IValue& tensor : all[place].toListRef()) {
        look_at(tensor);
      }
    }
  }
}

}  // namespace
