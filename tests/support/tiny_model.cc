#include "tests/support/tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"

namespace ng::test {

std::string TinyNiels::ConfigJson() const {
  return absl::StrCat("{\"model_type\": \"niels-gpt\", \"V\": ", vocab_size,
                      ", \"T\": ", max_positions, ", \"C\": ", width, ", \"L\": ", n_layers,
                      ", \"H\": ", n_heads, ", \"d_ff\": ", ffn_width,
                      ", \"rope_theta\": ", rope_theta, "}");
}

std::vector<NamedTensor> TinyNiels::Tensors() const {
  std::mt19937_64 random(seed);
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, float center,
                       float spread) {
    NamedTensor tensor{name, shape, {}};
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    for (int64_t i = 0; i < n; ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      tensor.data.push_back(center + spread * static_cast<float>(2.0 * unit - 1.0));
    }
    tensors.push_back(std::move(tensor));
  };
  const float in_width = 1.7F / std::sqrt(static_cast<float>(width));
  const float in_ffn = 1.7F / std::sqrt(static_cast<float>(ffn_width));
  add("tok_emb.weight", {vocab_size, width}, 0.0F, 1.0F);
  add("ln_f.weight", {width}, 1.0F, 0.3F);
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    const std::string block = absl::StrCat("blocks.", layer, ".");
    add(block + "ln1.weight", {width}, 1.0F, 0.3F);
    add(block + "attn.qkv.weight", {3 * width, width}, 0.0F, 2.0F * in_width);
    add(block + "attn.proj.weight", {width, width}, 0.0F, in_width);
    add(block + "ln2.weight", {width}, 1.0F, 0.3F);
    add(block + "mlp.fc_g.weight", {ffn_width, width}, 0.0F, in_width);
    add(block + "mlp.fc_g.bias", {ffn_width}, 0.0F, 0.2F);
    add(block + "mlp.fc_a.weight", {ffn_width, width}, 0.0F, in_width);
    add(block + "mlp.fc_a.bias", {ffn_width}, 0.0F, 0.2F);
    add(block + "mlp.fc_out.weight", {width, ffn_width}, 0.0F, in_ffn);
    add(block + "mlp.fc_out.bias", {width}, 0.0F, 0.2F);
  }
  return tensors;
}

void TinyNiels::WriteTo(const std::string& dir,
                        const std::function<void(std::vector<NamedTensor>&)>& edit) const {
  std::ofstream(dir + "/config.json") << ConfigJson();
  std::vector<NamedTensor> tensors = Tensors();
  if (edit) edit(tensors);
  const absl::Status written = WriteSafetensors(dir + "/model.safetensors", tensors);
  ASSERT_TRUE(written.ok()) << written;
}

void CopyWithContext(const std::string& from, int64_t context, const std::string& to) {
  // Not as JSON: transformers writes numbers that it does not have.
  const std::string field = "\"max_position_embeddings\": ";
  std::string config = Slurp(from + "/config.json");
  const size_t begin = config.find(field) + field.size();
  ASSERT_GE(begin, field.size());
  config.replace(begin, config.find_first_not_of("0123456789", begin) - begin,
                 std::to_string(context));
  std::ofstream(to + "/config.json") << config;
  std::filesystem::copy(from + "/model.safetensors", to + "/model.safetensors");
}

}  // namespace ng::test
