#include "nn/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tensor/error.h"

namespace clearhead {

void write_file(const std::string& path, std::string_view contents) {
  const std::string temporary = path + ".tmp";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  require(file >= 0, path, "cannot write: ", std::strerror(errno));
  bool written = true;
  while (written && !contents.empty()) {
    const ssize_t n = ::write(file, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    written = n > 0;
    if (written) contents.remove_prefix(size_t(n));
  }
  written = written && ::fsync(file) == 0;
  int reason = errno;
  ::close(file);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) written = false, reason = errno;
  if (!written) ::unlink(temporary.c_str());
  require(written, path, "cannot write: ", std::strerror(reason));
  // The rename itself must reach the disk too; a file system that cannot sync a folder has nothing more to offer.
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (const int dir = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
}

std::string read_file(const std::string& path) {
  require(!std::filesystem::is_directory(path), path, "is a folder, not a file");
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), path, "cannot read: ", std::strerror(errno));
  std::ostringstream contents;
  contents << in.rdbuf();
  require(!in.bad(), path, "cannot read: ", std::strerror(errno));
  return std::move(contents).str();
}

}  // namespace clearhead
