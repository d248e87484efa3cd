#include <gtest/gtest.h>

#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tensor/linalg.h"
#include "tensor/print.h"
#include "tensor/random.h"

using namespace clearhead;

TEST(Tensor, Reshape) {
  Rng rng(1);
  Tensor t = random_normal({2, 3, 4}, 1, rng);
  EXPECT_EQ(t.reshape({6, -1}).shape(), Shape({6, 4}));
}
