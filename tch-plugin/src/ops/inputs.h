// Encodes an op's inputs as the words that `InputsBuilder::set_words` accepts. Included only by
// record.cpp.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>

namespace {

// --- Inputs -------------------------------------------------------------------------------------

// Stored on the stack unless an op has more than about 40 tensors. A thread-local buffer would have
// to outlive the ops that run while a thread is torn down.
using Words = c10::SmallVector<int64_t, 160>;

// Codes of `mlprof_core::hook::DType`, and codes for inputs that are not tensors.
constexpr int64_t LIST = 0xff;
constexpr int64_t INTEGERS = 0xfe;
constexpr int64_t NOT_A_TENSOR = 0;

int64_t code_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double: return 1;
    case c10::ScalarType::Float: return 2;
    case c10::ScalarType::Half: return 3;
    case c10::ScalarType::BFloat16: return 4;
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2fnuz:
    case c10::ScalarType::Float8_e4m3fnuz: return 5;
    case c10::ScalarType::Long: return 6;
    case c10::ScalarType::Int: return 7;
    case c10::ScalarType::Short: return 8;
    case c10::ScalarType::Char: return 9;
    case c10::ScalarType::UInt64: return 10;
    case c10::ScalarType::UInt32: return 11;
    case c10::ScalarType::UInt16: return 12;
    case c10::ScalarType::Byte: return 13;
    case c10::ScalarType::Bool: return 14;
    case c10::ScalarType::ComplexFloat: return 15;
    case c10::ScalarType::ComplexDouble: return 16;
    case c10::ScalarType::QInt8:
    case c10::ScalarType::QUInt8:
    case c10::ScalarType::QInt32:
    case c10::ScalarType::QUInt4x2:
    case c10::ScalarType::QUInt2x4: return 17;
    default: return 18;
  }
}

int64_t head(int64_t code, size_t count) {
  return (code << 32) | static_cast<int64_t>(count);
}

// Inlined, because every op runs this code, and a call per input would take as long as the work
// itself.
#define MLPROF_IN_LINE __attribute__((always_inline)) inline

// Appends word by word. `append` would be a call, and most tensors have few dimensions.
MLPROF_IN_LINE void add_all(int64_t code, const c10::IntArrayRef numbers, Words& words) {
  const size_t place = words.size();
  words.resize_for_overwrite(place + 1 + numbers.size());
  int64_t* next = words.data() + place;
  *next = head(code, numbers.size());
  for (const int64_t number : numbers) {
    *++next = number;
  }
}

MLPROF_IN_LINE void add_tensor(const c10::IValue& value, Words& words) {
  // `toTensor()` is avoided, because it increments the reference count.
  const c10::TensorImpl* tensor = value.unsafeToTensorImpl();
  // As in torch's own profiler, tensors without sizes of their own are treated as undefined.
  if (tensor == c10::UndefinedTensorImpl::singleton() || tensor->is_nested() ||
      tensor->has_symbolic_sizes_strides()) {
    words.push_back(NOT_A_TENSOR);
    return;
  }
  const c10::IntArrayRef sizes = tensor->sizes();
  const int64_t code = code_of(c10::typeMetaToScalarType(tensor->dtype()));
  add_all(code, sizes, words);
}

void add_list(const c10::IValue& list, Words& words) {
  const c10::ArrayRef<c10::IValue> tensors = list.toListRef();
  words.push_back(head(LIST, tensors.size()));
  for (const c10::IValue& tensor : tensors) {
    add_tensor(tensor, words);
  }
}

void add_integers(const c10::IValue& value, Words& words) {
  if (value.isInt() || value.isBool()) {
    words.push_back(head(INTEGERS, 1));
    words.push_back(value.isInt() ? value.toInt() : static_cast<int64_t>(value.toBool()));
    return;
  }
  if (value.isBoolList()) {
    const auto switches = value.toBoolList();
    words.push_back(head(INTEGERS, switches.size()));
    for (const bool is_on : switches) {
      words.push_back(static_cast<int64_t>(is_on));
    }
    return;
  }
  const auto integers = value.toIntVector();
  words.push_back(head(INTEGERS, integers.size()));
  words.append(integers.begin(), integers.end());
}

MLPROF_IN_LINE void add_inputs(const at::RecordFunction& op, bool counts_integers, Words& words) {
  const auto add_if_counted = [&](const c10::IValue& input) {
    if (counts_integers) {
      add_integers(input, words);
    } else {
      words.push_back(NOT_A_TENSOR);
    }
  };
  for (const c10::IValue& input : op.inputs()) {
    if (input.isTensor()) {
      add_tensor(input, words);
    } else if (input.isInt() || input.isBool()) {
      add_if_counted(input);
    } else if (!input.isList()) {
      // All other kinds of values. Finding the element type of a list would take additional calls.
      words.push_back(NOT_A_TENSOR);
    } else if (input.isTensorList()) {
      add_list(input, words);
    } else if (input.isIntList() || input.isBoolList()) {
      add_if_counted(input);
    } else {
      words.push_back(NOT_A_TENSOR);
    }
  }
}

// --- Input details ------------------------------------------------------------------------------

// Codes of mlprof-events/src/shapes/details.rs.
constexpr int64_t DETAILS = 0xfd;
constexpr int64_t STRIDES = 1;
constexpr int64_t INTEGER = 2;
constexpr int64_t SWITCH = 3;
constexpr int64_t FLOAT = 4;
constexpr int64_t COMPLEX = 5;
constexpr int64_t NUMBERS = 0xfe;
constexpr int64_t UNKNOWN = 0;

// Maximum length of recorded lists. torch's own profiler also omits longer lists.
constexpr size_t MOST_NUMBERS = 30;

int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void add_text(const char* text, Words& words) {
  const size_t length = std::strlen(text);
  words.push_back(static_cast<int64_t>(length));
  for (size_t place = 0; place < length; place += 8) {
    int64_t letters = 0;
    std::memcpy(&letters, text + place, std::min<size_t>(8, length - place));
    words.push_back(letters);
  }
}

void add_strides(const c10::IValue& value, Words& words) {
  const c10::TensorImpl* tensor = value.unsafeToTensorImpl();
  const bool has_strides = tensor != c10::UndefinedTensorImpl::singleton() &&
                           !tensor->is_nested() && !tensor->has_symbolic_sizes_strides();
  if (!has_strides) {
    words.push_back(UNKNOWN);
    return;
  }
  if (tensor->layout() != c10::kStrided) {
    words.push_back(head(STRIDES, 0));
    return;
  }
  add_all(STRIDES, tensor->strides(), words);
}

void add_number(const c10::IValue& value, Words& words) {
  if (value.isInt()) {
    words.push_back(head(INTEGER, 1));
    words.push_back(value.toInt());
  } else if (value.isBool()) {
    words.push_back(head(SWITCH, 1));
    words.push_back(static_cast<int64_t>(value.toBool()));
  } else if (value.isDouble()) {
    words.push_back(head(FLOAT, 1));
    words.push_back(bits_of(value.toDouble()));
  } else if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    words.push_back(head(COMPLEX, 2));
    words.push_back(bits_of(number.real()));
    words.push_back(bits_of(number.imag()));
  } else {
    words.push_back(UNKNOWN);
  }
}

void add_detail(const c10::IValue& input, Words& words) {
  if (input.isTensor()) {
    add_strides(input, words);
  } else if (!input.isList()) {
    add_number(input, words);
  } else {
    const c10::ArrayRef<c10::IValue> parts = input.toListRef();
    const bool is_of_tensors = input.isTensorList();
    const bool is_of_numbers =
        parts.empty() || (parts.front().isScalar() && parts.size() <= MOST_NUMBERS);
    if (is_of_tensors) {
      words.push_back(head(LIST, parts.size()));
      for (const c10::IValue& tensor : parts) {
        add_strides(tensor, words);
      }
    } else if (is_of_numbers) {
      words.push_back(head(NUMBERS, parts.size()));
      for (const c10::IValue& number : parts) {
        add_number(number, words);
      }
    } else {
      words.push_back(UNKNOWN);
    }
  }
}

// Writes the details, which precede the inputs.
void add_details(const at::RecordFunction& op, Words& words) {
  words.push_back(0);
  add_text(op.overload_name(), words);
  for (const c10::IValue& input : op.inputs()) {
    add_detail(input, words);
  }
  words[0] = head(DETAILS, words.size() - 1);
}

}  // namespace
