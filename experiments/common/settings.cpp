#include "experiments/common/settings.h"

#include <memory>

#include "experiments/common/tasks.h"
#include "experiments/common/text.h"

namespace clearhead {

Config one_layer_of(Config c) {
  c.n_layers = 1, c.n_heads *= 2;
  return c;
}

Setting repeated_segments(Run& run) {
  const RepeatedSegment task;
  run.config = {{"task", to_json(task)}, {"steps", run.options().steps}};
  run.begin();
  Config c;
  c.d_vocab = task.V + 1, c.n_ctx = task.T;
  const auto bos = int32_t(task.V);
  const auto sample = [=](int64_t B, Rng& rng) { return begun_with(task.sample(B, rng), bos); };
  Rng rng(run.seed(), Stream::eval);
  return {c,
          [=](Rng& r) { return next_token_batch(sample(32, r)); },
          sample(32, rng),
          {.steps = run.options().steps, .lr = 6e-3},
          bos};
}

Setting text_passages(Run& run) {
  run.config = {{"text", to_json(run.options().text)}, {"steps", run.options().steps}};
  run.begin();
  const auto corpus = std::make_shared<Corpus>(read_text(run));
  Config c;
  c.d_vocab = corpus->tokenizer.vocab_size(), c.n_ctx = 256, c.d_model = 128, c.d_head = 32;
  const int32_t bos = corpus->tokenizer.bos();
  const auto sample = [=](Rng& rng) {
    return next_token_batch(begun_with(random_windows(corpus->train, 8, c.n_ctx + 1, rng), bos));
  };
  return {c,
          sample,
          begun_with(repeated(consecutive_windows(corpus->held_out, c.n_ctx / 2, 16), 2), bos),
          {.steps = run.options().steps, .lr = 4e-3, .warmup = 200, .log_every = 100},
          bos};
}

}  // namespace clearhead
