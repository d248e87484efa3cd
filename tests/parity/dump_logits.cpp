// dump_logits MODEL.safetensors OUT.safetensors: what our forward pass makes of a trained model, for check_model.py to
// compare. Draws sequences of n_ctx random tokens, always the same, and writes them ("tokens") and their "logits".
#include <iostream>

#include "nn/model_file.h"

using namespace clearhead;

int main(int argc, char** argv) try {
  require(argc == 3, "dump_logits", "usage: dump_logits MODEL.safetensors OUT.safetensors");
  const NoGrad no_grad;
  const Transformer model = load_model(argv[1]);
  Tokens tokens(2, model.config.n_ctx);
  Rng rng(0, Stream::eval);
  for (int32_t& id : tokens.ids) id = int32_t(rng.below(model.config.d_vocab));
  Tensor ids({tokens.B, tokens.T});
  std::ranges::copy(tokens.ids, ids.mut().begin());
  TensorFile file;
  file.tensors = {{"tokens", ids}, {"logits", model.logits(tokens).value()}};
  save_tensors(argv[2], file);
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
