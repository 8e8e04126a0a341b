// What Rust and C++ tell each other. The Rust side is ffi.rs.

#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// An op by its name.
struct MlprofTchName {
  // Good for ever; not terminated.
  const char* text;
  size_t length;
  // What Rust knows it by, in the lower half, and what is known of all ops of this name; 0 is none.
  uint64_t op;
};

// Whether the number of operations depends on the op's whole numbers and switches.
constexpr uint64_t MLPROF_TCH_CONVOLUTION = uint64_t{1} << 33;

// An op that begins. Everything it points to is good during the call alone.
struct MlprofTchOp {
  // The same at its end; another op may have it after that.
  const void* key;
  // Of its `MlprofTchName`.
  uint64_t op;
  // In the form of `InputsBuilder::set_words`; null if they are not wanted.
  const int64_t* words;
  size_t word_count;
  // Below 0: none.
  int64_t sequence;
  // As libtorch counts threads.
  uint64_t thread;
  // Of a node of autograd: the thread of its forward op; else 0.
  uint64_t forward_thread;
  bool is_backward;
};

struct MlprofTchStorage {
  uint64_t address;
  uint64_t bytes;
  // The number of an accelerator, or -1 for the host.
  int32_t device;
};

// A tensor in the host's memory, as it lies there; or, without an address, one whose numbers cannot be read.
struct MlprofTchTensor {
  const void* address;
  // Of `mlprof_core::hook::DType`.
  int64_t type;
  const int64_t* sizes;
  // In elements; as many as sizes.
  const int64_t* strides;
  size_t dimensions;
};

// What an op has returned that is about to end, and what it was given. Everything it points to is good during the call
// alone.
struct MlprofTchOutput {
  // Of its `MlprofTchName`.
  uint64_t op;
  const MlprofTchTensor* output;
  const MlprofTchTensor* inputs;
  size_t input_count;
  // Numbers besides that are not finite.
  const double* numbers;
  size_t number_count;
  // Whether `inputs` are all of them.
  bool knows_inputs;
};

struct MlprofTchReceivers {
  // Fills in what has this name; false on a thread that ends and knows nothing any more. A thread that has been told of
  // one calls `mlprof_tch_forget_names` when it ends.
  bool (*name)(const char* text, size_t length, MlprofTchName* found);
  void (*op_starts)(const MlprofTchOp*);
  void (*op_ends)(const void* key);
  void (*op_returns)(const MlprofTchOutput*);
  // The device is the number of an accelerator, or -1 for the host.
  void (*memory)(uint64_t address, int64_t bytes, uint64_t allocated, uint64_t reserved,
                 int32_t device);
  // An op reads this memory, on a thread whose reads are followed.
  void (*read)(const MlprofTchStorage* storage);
};

// Whom to call. Before anything else, once.
void mlprof_tch_receivers(const MlprofTchReceivers* calls) noexcept;

// The calling thread ends, and no name is looked up on it from here on.
void mlprof_tch_forget_names() noexcept;

// What to record from here on: with `inputs` all that is known of ops' inputs, with `shapes` their shapes and
// types, with `outputs` what they return; false if libtorch fails.
bool mlprof_tch_record(bool ops, bool shapes, bool inputs, bool memory, bool outputs) noexcept;

// The version of libtorch that this was compiled for, such as "2.13.0"; good for ever.
const char* mlprof_tch_version() noexcept;

// Whether memory of some thread was not recorded since the last call, because torch's own profiler
// was at work there.
bool mlprof_tch_slot_was_taken() noexcept;

// Whether the calling thread tells which memory its ops read, until it is called again; false if
// libtorch fails.
bool mlprof_tch_follow_reads(bool follows) noexcept;

// The memory of a tensor (an `at::Tensor*`) or of its gradient; false if it has none.
bool mlprof_tch_storage(const void* tensor, bool of_gradient, MlprofTchStorage* storage) noexcept;
}
