#include "nn/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "nn/files.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

using Json = nlohmann::json;
constexpr const char* own_dtype = sizeof(Real) == 4 ? "F32" : "F64";

template <class From>
void copy_numbers(const char* bytes, Tensor& to) {
  for (Real& x : to.mut()) {
    From number;
    std::memcpy(&number, bytes, sizeof number);
    x = Real(number);
    bytes += sizeof number;
  }
}

// One tensor of the header, checked against what follows it in the file.
Tensor read_tensor(const std::string& path, const std::string& name, const Json& entry, std::string_view data) {
  const auto dtype = entry.at("dtype").get<std::string>();
  require(dtype == "F32" || dtype == "F64", path, "tensor '", name, "' has dtype ", dtype,
          "; only F32 and F64 can be read");
  const auto dims = entry.at("shape").get<std::vector<int64_t>>();
  int64_t numel = 1;
  for (int64_t d : dims) {
    require(d >= 1 && d <= int64_t(data.size()) && numel <= int64_t(data.size()), path, "tensor '", name,
            "' has an impossible shape ", entry.at("shape").dump());
    numel *= d;
  }
  const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
  require(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data.size(), path, "tensor '", name,
          "' lies at ", entry.at("data_offsets").dump(), ", but the file has ", data.size(),
          " bytes of data (truncated?)");
  const uint64_t size = dtype == "F32" ? 4 : 8;
  require(offsets[1] - offsets[0] == uint64_t(numel) * size, path, "tensor '", name, "' has shape ",
          entry.at("shape").dump(), " and ", offsets[1] - offsets[0], " bytes of ", dtype);
  Tensor t = Tensor::empty(Shape(dims));
  const char* const bytes = data.data() + offsets[0];
  if (size == 4)
    copy_numbers<float>(bytes, t);
  else
    copy_numbers<double>(bytes, t);
  return t;
}

}  // namespace

const Tensor& TensorFile::at(const std::string& name, const Shape& expected) const {
  const auto it = tensors.find(name);
  require(it != tensors.end(), path, "tensor '", name, "' is missing");
  require(it->second.shape() == expected, path, "tensor '", name, "' has shape ", it->second.shape(), ", not ",
          expected);
  return it->second;
}

void save_tensors(const std::string& path, const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor t = tensor.contiguous();
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(t.data()), size_t(t.numel()) * sizeof(Real));
    header[name] = {{"dtype", own_dtype},
                    {"shape", std::vector(t.shape().begin(), t.shape().end())},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the numbers start at a multiple of 8
  const uint64_t length = text.size();
  std::string contents(reinterpret_cast<const char*>(&length), sizeof length);
  write_file(path, contents.append(text).append(data));
}

TensorFile load_tensors(const std::string& path) {
  const std::string contents = read_file(path);
  uint64_t length = 0;
  require(contents.size() >= sizeof length, path, "not a safetensors file: it has ", contents.size(), " bytes");
  std::memcpy(&length, contents.data(), sizeof length);
  require(length <= contents.size() - sizeof length, path, "not a safetensors file, or truncated: a header of ", length,
          " bytes in a file of ", contents.size());
  const std::string_view text = std::string_view(contents).substr(sizeof length, length);
  const std::string_view data = std::string_view(contents).substr(sizeof length + length);
  TensorFile file;
  file.path = path;
  try {
    const Json header = Json::parse(text);
    require(header.is_object(), path, "not a safetensors file: the header is no JSON object");
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        entry.get_to(file.metadata);
        continue;
      }
      file.tensors.emplace(name, read_tensor(path, name, entry, data));
      ranges.emplace_back(entry.at("data_offsets").at(0), entry.at("data_offsets").at(1));
    }
    std::ranges::sort(ranges);
    uint64_t end = 0;
    for (const auto& [first, last] : ranges) {
      require(first == end, path, "corrupt: the tensors leave a hole or overlap at byte ", end, " of the data");
      end = last;
    }
    require(end == data.size(), path, "corrupt: ", data.size(), " bytes of data, the tensors take ", end);
  } catch (const Json::exception& e) {
    fail(path, "not a safetensors file: the header is broken (", e.what(), ")");
  }
  return file;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
