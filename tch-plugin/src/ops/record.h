// Interface between Rust and C++. The Rust side is ffi.rs.

#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// An op name.
struct MlprofTchName {
  // Valid forever; not NUL-terminated.
  const char* text;
  size_t length;
  // Lower half: the id that Rust assigned. Upper half: flags of all ops with this name. 0 means
  // none.
  uint64_t op;
};

// Flag of ops whose operation count depends on their integer and boolean arguments.
constexpr uint64_t MLPROF_TCH_CONVOLUTION = uint64_t{1} << 33;

// An op that begins. All pointers are valid only during the call.
struct MlprofTchOp {
  // Key of the op until it ends. Later ops may reuse it.
  const void* key;
  // Field `op` of its `MlprofTchName`.
  uint64_t op;
  // Inputs in the encoding of `InputsBuilder::set_words`, or null if inputs are not requested.
  const int64_t* words;
  size_t word_count;
  // Autograd sequence number; negative if there is none.
  int64_t sequence;
  // Id of the executing thread in libtorch's numbering.
  uint64_t thread;
  // For an autograd node, the thread id of its forward op; otherwise 0.
  uint64_t forward_thread;
  bool is_backward;
};

struct MlprofTchStorage {
  uint64_t address;
  uint64_t bytes;
  // Index of an accelerator, or -1 for the host.
  int32_t device;
};

// A tensor in host memory. Without an address, its numbers cannot be read.
struct MlprofTchTensor {
  const void* address;
  // Code of `mlprof_core::hook::DType`.
  int64_t type;
  const int64_t* sizes;
  // In elements, as many as sizes.
  const int64_t* strides;
  size_t dimensions;
};

// The output and the inputs of an op that is about to end. All pointers are valid only during the
// call.
struct MlprofTchOutput {
  // Field `op` of its `MlprofTchName`.
  uint64_t op;
  const MlprofTchTensor* output;
  const MlprofTchTensor* inputs;
  size_t input_count;
  // Non-finite number arguments.
  const double* numbers;
  size_t number_count;
  // True if `inputs` contains all inputs.
  bool knows_inputs;
};

struct MlprofTchReceivers {
  // Looks up a name. Returns false on a thread that is being torn down. After a lookup, a thread
  // calls `mlprof_tch_forget_names` when it ends.
  bool (*name)(const char* text, size_t length, MlprofTchName* found);
  void (*op_starts)(const MlprofTchOp*);
  void (*op_ends)(const void* key);
  void (*op_returns)(const MlprofTchOutput*);
  // The device is the index of an accelerator, or -1 for the host.
  void (*memory)(uint64_t address, int64_t bytes, uint64_t allocated, uint64_t reserved,
                 int32_t device);
  // Called when an op reads this memory, on a thread with `mlprof_tch_follow_reads`.
  void (*read)(const MlprofTchStorage* storage);
};

// Sets the callbacks. Must be called once, before all other functions.
void mlprof_tch_receivers(const MlprofTchReceivers* calls) noexcept;

// Frees the name cache of the calling thread, which must not look up names afterwards.
void mlprof_tch_forget_names() noexcept;

// Selects the recorded data: all data about inputs (`inputs`), their shapes and types (`shapes`),
// and outputs (`outputs`). Returns false if libtorch fails.
bool mlprof_tch_record(bool ops, bool shapes, bool inputs, bool memory, bool outputs) noexcept;

// Returns the libtorch version of the build, such as "2.13.0". The text is valid forever.
const char* mlprof_tch_version() noexcept;

// Returns true if the memory of some thread was not recorded since the last call, because torch's
// own profiler was running there.
bool mlprof_tch_slot_was_taken() noexcept;

// Starts or stops reporting the memory that the calling thread's ops read. Returns false if
// libtorch fails.
bool mlprof_tch_follow_reads(bool follows) noexcept;

// Returns the memory of a tensor (an `at::Tensor*`) or of its gradient. Returns false if there is
// none.
bool mlprof_tch_storage(const void* tensor, bool of_gradient, MlprofTchStorage* storage) noexcept;
}
