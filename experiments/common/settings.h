// What a two-layer model is trained on, and what it is then looked at with.
#pragma once

#include "experiments/common/train.h"

namespace clearhead {

// Every sequence begins with a token of its own: a head that finds nothing
// has a place to look (T9).
struct Setting {
  Config config;
  BatchSource batches;
  Tokens repeated;  // with segments that come again
  TrainOptions options;
  int32_t bos;
};

// The control: one layer of twice as many heads, and so as many parameters.
Config one_layer_of(Config c);

// Segments that repeat with random length and offset (tasks.h): four heads in each layer, d_model 64.
Setting repeated_segments(Run& run);
// Windows of 256 tokens of the text that --corpus names (text.h); looked at with held-out passages of half of that,
// twice each. d_model 128.
Setting text_passages(Run& run);

}  // namespace clearhead
