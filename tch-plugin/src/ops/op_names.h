// From the names of ops to what Rust knows them by. Only record.cpp includes it.

#pragma once

#include "record.h"

#include <cstdint>
#include <cstring>

namespace {

// A name by its address: that of most ops is always the same one. Another name may come to lie there, so that the letters
// are compared nevertheless.
struct KnownName {
  const char* address;
  MlprofTchName name;
};

// A power of two.
constexpr size_t KNOWN_NAMES = 512;

// Without a destructor, as ops run while a thread is torn down.
thread_local KnownName known_names[KNOWN_NAMES];

bool is_named(const char* text, const MlprofTchName& name) {
  // Stops where the text ends.
  return std::strncmp(text, name.text, name.length) == 0 && text[name.length] == '\0';
}

__attribute__((noinline)) uint64_t look_up_name(const char* text, KnownName& known,
                                                const MlprofTchReceivers& receivers) {
  MlprofTchName found{};
  if (!receivers.name(text, std::strlen(text), &found)) {
    return 0;
  }
  known = KnownName{text, found};
  return found.op;
}

// 0 where there is no more to be known of it.
inline uint64_t op_of_name(const char* text, const MlprofTchReceivers& receivers) {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(text) * uint64_t{0x9E3779B97F4A7C15};
  KnownName& known = known_names[(mixed >> 32) % KNOWN_NAMES];
  if (known.address == text && is_named(text, known.name)) {
    return known.name.op;
  }
  return look_up_name(text, known, receivers);
}

}  // namespace
