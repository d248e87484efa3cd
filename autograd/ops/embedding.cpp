// y[b, t] = table[tokens[b, t]]. Row v of the table receives the gradients of all the positions where v stood, added in
// the order of the positions whatever the number of threads: each thread owns a range of columns, and walks over all
// tokens.
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

// [V, d], [B, T] -> [B, T, d]
Var embedding(const Var& table_var, const Tokens& tokens) {
  const Tensor table = table_var.value().contiguous();
  require(table.rank() == 2, "embedding", "the table must be [V, d], got ", table.shape());
  const int64_t V = table.dim(0), width = table.dim(1), n = tokens.B * tokens.T;
  for (int64_t i = 0; i < n; ++i)
    require(tokens.ids[size_t(i)] >= 0 && tokens.ids[size_t(i)] < V, "embedding", "token ", tokens.ids[size_t(i)],
            " at [", i / tokens.T, ", ", i % tokens.T, "] is outside the vocabulary 0..", V - 1);
  Tensor y = Tensor::empty({tokens.B, tokens.T, width});
  Real* const out = y.mut().data();
  const Real* const rows = table.data();
  parallel_for(n, std::max<int64_t>(1, elementwise_grain / width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(rows + tokens.ids[size_t(i)] * width, width, out + i * width);
  });
  return record("embedding", y, {table_var}, [tokens, shape = table.shape()](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] {
      Tensor dtable(shape);
      const Tensor g = dy.contiguous();
      const Real* const in = g.data();
      Real* const sums = dtable.mut().data();
      const int64_t columns = shape[1];
      parallel_for(columns, 64, [&](int64_t begin, int64_t end) {
        for (size_t i = 0; i < tokens.ids.size(); ++i) {
          Real* const row = sums + tokens.ids[i] * columns;
          hot::add(row + begin, in + int64_t(i) * columns + begin, row + begin, end - begin);
        }
      });
      return dtable;
    });
  });
}
static const Register embedding_spec{{"embedding",
                                      [](auto& x) {
                                        Tokens tokens(2, 3);
                                        const int64_t last = x[0].dim(0) - 1;
                                        tokens.ids = {0, int32_t(last), 0, int32_t(last / 2), 0, int32_t(last)};
                                        return embedding(x[0], tokens);
                                      },
                                      {{{4, 3}}, {{1, 1}}, {{3, 70}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
