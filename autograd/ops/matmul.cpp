// C = A B.  With L the loss and dC = dL/dC,   dL = <dC, dA B + A dB>,   so   dA = dC B^T   and   dB = A^T dC.
// Transposes are views that gemm reads by flag, so neither product copies anything.
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/blas.h"

namespace clearhead::inline CLEARHEAD_REAL {

// [..., n, k] @ [k, m] or [..., k, m] -> [..., n, m].  Saves both factors.
Var matmul(const Var& a, const Var& b) {
  const Tensor A = a.value(), B = b.value();
  return record("matmul", matmul(A, B), {a, b}, [A, B](const Tensor& dC, Adjoints& d) {
    d.add_product(0, dC, B.transpose());
    if (B.rank() == A.rank()) return d.add_product(1, A.transpose(), dC);
    // One B for all leading dimensions: its gradient sums over them, which is what folding them into the rows does.
    d.add_product(1, A.reshape({-1, A.dim(-1)}).transpose(), dC.reshape({-1, dC.dim(-1)}));
  });
}
static const Register matmul_spec{{"matmul",
                                   [](auto& x) { return matmul(x[0], x[1]); },
                                   {{{2, 3}, {3, 4}},
                                    {{2, 2, 3}, {3, 2}},
                                    {{2, 2, 3}, {2, 3, 4}},
                                    {{1, 1}, {1, 1}},
                                    {{3, 3}, {3, 3}},
                                    {{1, 4}, {4, 1}},
                                    {{2, 1, 2, 2}, {2, 1, 2, 3}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
