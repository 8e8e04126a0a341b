// Reads and writes the state of libtorch's optimizers and random number generators, which tch does
// not expose.
//
// All entry points are `noexcept`: an exception of libtorch becomes the result `false`.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

namespace {

using torch::optim::Optimizer;

enum Kind : int32_t { kUnknown = 0, kAdam = 1, kAdamW = 2, kRmsProp = 3, kSgd = 4 };

constexpr int kTensors = 3;
constexpr int kOptions = 6;

Kind kind_of(const Optimizer* optimizer) {
  if (dynamic_cast<const torch::optim::Adam*>(optimizer) != nullptr) return kAdam;
  if (dynamic_cast<const torch::optim::AdamW*>(optimizer) != nullptr) return kAdamW;
  if (dynamic_cast<const torch::optim::RMSprop*>(optimizer) != nullptr) return kRmsProp;
  if (dynamic_cast<const torch::optim::SGD*>(optimizer) != nullptr) return kSgd;
  return kUnknown;
}

// The parts of an optimizer state: the number of steps, if it counts them, and its tensors in a
// fixed order.
struct Parts {
  int64_t step = 0;
  at::Tensor tensors[kTensors];
};

template <class State>
Parts read_adam(const torch::optim::OptimizerParamState& state) {
  const auto& own = static_cast<const State&>(state);
  return {own.step(), {own.exp_avg(), own.exp_avg_sq(), own.max_exp_avg_sq()}};
}

Parts read(Kind kind, const torch::optim::OptimizerParamState& state) {
  switch (kind) {
    case kAdam:
      return read_adam<torch::optim::AdamParamState>(state);
    case kAdamW:
      return read_adam<torch::optim::AdamWParamState>(state);
    case kRmsProp: {
      const auto& own = static_cast<const torch::optim::RMSpropParamState&>(state);
      return {own.step(), {own.square_avg(), own.momentum_buffer(), own.grad_avg()}};
    }
    case kSgd: {
      const auto& own = static_cast<const torch::optim::SGDParamState&>(state);
      return {0, {own.momentum_buffer(), {}, {}}};
    }
    default:
      return {};
  }
}

template <class State>
std::unique_ptr<torch::optim::OptimizerParamState> made_adam(const Parts& parts) {
  auto state = std::make_unique<State>();
  state->step(parts.step);
  state->exp_avg(parts.tensors[0]);
  state->exp_avg_sq(parts.tensors[1]);
  state->max_exp_avg_sq(parts.tensors[2]);
  return state;
}

std::unique_ptr<torch::optim::OptimizerParamState> made(Kind kind, const Parts& parts) {
  switch (kind) {
    case kAdam:
      return made_adam<torch::optim::AdamParamState>(parts);
    case kAdamW:
      return made_adam<torch::optim::AdamWParamState>(parts);
    case kRmsProp: {
      auto state = std::make_unique<torch::optim::RMSpropParamState>();
      state->step(parts.step);
      state->square_avg(parts.tensors[0]);
      state->momentum_buffer(parts.tensors[1]);
      state->grad_avg(parts.tensors[2]);
      return state;
    }
    case kSgd: {
      auto state = std::make_unique<torch::optim::SGDParamState>();
      state->momentum_buffer(parts.tensors[0]);
      return state;
    }
    default:
      return nullptr;
  }
}

template <class Options>
void adam_options(torch::optim::OptimizerOptions& options, double* values, bool writes) {
  auto& own = static_cast<Options&>(options);
  if (writes) {
    own.lr(values[0]);
    own.betas(std::make_tuple(values[1], values[2]));
    own.eps(values[3]);
    own.weight_decay(values[4]);
    own.amsgrad(values[5] != 0);
  } else {
    const double all[] = {own.lr(),  std::get<0>(own.betas()), std::get<1>(own.betas()),
                          own.eps(), own.weight_decay(),       own.amsgrad() ? 1.0 : 0.0};
    std::copy(all, all + kOptions, values);
  }
}

void rms_prop_options(torch::optim::OptimizerOptions& options, double* values, bool writes) {
  auto& own = static_cast<torch::optim::RMSpropOptions&>(options);
  if (writes) {
    own.lr(values[0]);
    own.alpha(values[1]);
    own.eps(values[2]);
    own.weight_decay(values[3]);
    own.momentum(values[4]);
    own.centered(values[5] != 0);
  } else {
    const double all[] = {own.lr(),           own.alpha(),    own.eps(),
                          own.weight_decay(), own.momentum(), own.centered() ? 1.0 : 0.0};
    std::copy(all, all + kOptions, values);
  }
}

void sgd_options(torch::optim::OptimizerOptions& options, double* values, bool writes) {
  auto& own = static_cast<torch::optim::SGDOptions&>(options);
  if (writes) {
    own.lr(values[0]);
    own.momentum(values[1]);
    own.dampening(values[2]);
    own.weight_decay(values[3]);
    own.nesterov(values[4] != 0);
  } else {
    const double all[] = {own.lr(),           own.momentum(),             own.dampening(),
                          own.weight_decay(), own.nesterov() ? 1.0 : 0.0, 0.0};
    std::copy(all, all + kOptions, values);
  }
}

void copy_options(Kind kind, torch::optim::OptimizerOptions& options, double* values, bool writes) {
  switch (kind) {
    case kAdam:
      return adam_options<torch::optim::AdamOptions>(options, values, writes);
    case kAdamW:
      return adam_options<torch::optim::AdamWOptions>(options, values, writes);
    case kRmsProp:
      return rms_prop_options(options, values, writes);
    case kSgd:
      return sgd_options(options, values, writes);
    default:
      return;
  }
}

// Returns the default generator of a CUDA device, or of the CPU for negative numbers.
at::Generator generator(int32_t cuda) {
  if (cuda < 0) return at::detail::getDefaultCPUGenerator();
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(cuda));
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

extern "C" {

// Returns the `Kind` of the optimizer and its number of parameter groups.
int32_t mlprof_tch_optimizer_kind(const Optimizer* optimizer, size_t* groups) noexcept {
  *groups = optimizer->param_groups().size();
  return kind_of(optimizer);
}

// Copies the options of a group to or from an array of six numbers.
bool mlprof_tch_optimizer_options(Optimizer* optimizer, size_t group, double* values,
                                  bool writes) noexcept {
  try {
    auto& options = optimizer->param_groups().at(group).options();
    copy_options(kind_of(optimizer), options, values, writes);
    return true;
  } catch (...) {
    return false;
  }
}

// Reads the state of a parameter: the steps and three tensors, each of which is null or owned by
// the caller. Returns false if the parameter has no state yet.
bool mlprof_tch_optimizer_read(const Optimizer* optimizer, const at::Tensor* parameter,
                               int64_t* step, at::Tensor** tensors) noexcept {
  try {
    const auto& states = optimizer->state();
    const auto found = states.find(parameter->unsafeGetTensorImpl());
    if (found == states.end()) return false;
    const Parts parts = read(kind_of(optimizer), *found->second);
    *step = parts.step;
    for (int place = 0; place < kTensors; ++place) {
      const at::Tensor& tensor = parts.tensors[place];
      tensors[place] = tensor.defined() ? new at::Tensor(tensor) : nullptr;
    }
    return true;
  } catch (...) {
    return false;
  }
}

// Sets the state of a parameter. A null tensor stands for an undefined one.
bool mlprof_tch_optimizer_write(Optimizer* optimizer, const at::Tensor* parameter, int64_t step,
                                const at::Tensor* const* tensors) noexcept {
  try {
    Parts parts;
    parts.step = step;
    for (int place = 0; place < kTensors; ++place) {
      if (tensors[place] != nullptr) parts.tensors[place] = *tensors[place];
    }
    auto state = made(kind_of(optimizer), parts);
    if (state == nullptr) return false;
    optimizer->state()[parameter->unsafeGetTensorImpl()] = std::move(state);
    return true;
  } catch (...) {
    return false;
  }
}

// Clears the state of all parameters.
void mlprof_tch_optimizer_clear(Optimizer* optimizer) noexcept { optimizer->state().clear(); }

// Returns the state of a generator, which the caller owns, or null if the generator does not exist.
at::Tensor* mlprof_tch_generator_read(int32_t cuda) noexcept {
  try {
    at::Generator own = generator(cuda);
    const std::lock_guard<std::mutex> guard(own.mutex());
    return new at::Tensor(own.get_state());
  } catch (...) {
    return nullptr;
  }
}

// Sets the state of a generator.
bool mlprof_tch_generator_write(int32_t cuda, const at::Tensor* state) noexcept {
  try {
    at::Generator own = generator(cuda);
    const std::lock_guard<std::mutex> guard(own.mutex());
    own.set_state(*state);
    return true;
  } catch (...) {
    return false;
  }
}
}
