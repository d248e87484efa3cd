// Real: the number type of every tensor. One source, two builds.
//
// The library is compiled with Real = float to train and, a second time, with Real = double (-DCLEARHEAD_DOUBLE) to
// check gradients and theorems: central differences need about 1e-11 of noise, float has 1e-3. Types that hold Reals
// live in an inline namespace that names the precision, so a function that takes a Tensor has another symbol in each
// build, and linking objects of the two fails with undefined references instead of corrupting memory.
#pragma once

#ifdef CLEARHEAD_DOUBLE
#define CLEARHEAD_REAL f64
namespace clearhead::inline f64 {
using Real = double;
}
#else
#define CLEARHEAD_REAL f32
namespace clearhead::inline f32 {
using Real = float;
}
#endif
