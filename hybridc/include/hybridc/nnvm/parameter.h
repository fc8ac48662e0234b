// struct P : public dmlc::Parameter<P>: an operator's attributes as fields, read from their texts.
#ifndef HYBRIDC_NNVM_PARAMETER_H_
#define HYBRIDC_NNVM_PARAMETER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../extension/message.h"
#include "logging.h"
#include "shape.h"

namespace dmlc {

struct ParamError : public Error {
  explicit ParamError(const std::string& text) : Error(text) {}
};

// What documentation says of a field.
struct ParamFieldInfo {
  std::string name, type, type_info_str, description;
};

namespace parameter {

inline const char* type_name(const bool*) { return "boolean"; }
inline const char* type_name(const std::string*) { return "string"; }
inline const char* type_name(const float*) { return "float"; }
inline const char* type_name(const double*) { return "double"; }
inline const char* type_name(const nnvm::TShape*) { return "Shape(tuple)"; }
inline const char* type_name(const void*) { return "int"; }

// Each returns whether all of `text` is a value of the type.
inline bool parse(const std::string& text, std::string* value) {
  *value = text;
  return true;
}
inline bool parse(const std::string& text, bool* value) {
  *value = text == "True" || text == "true" || text == "1";
  return *value || text == "False" || text == "false" || text == "0";
}
inline bool parse_number(const std::string& text, double* value) {
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}
inline bool parse(const std::string& text, double* value) { return parse_number(text, value); }
inline bool parse(const std::string& text, float* value) {
  double wide = 0;
  bool good = parse_number(text, &wide);
  *value = static_cast<float>(wide);
  return good;
}
template <typename Integer>
bool parse(const std::string& text, Integer* value) {
  std::istringstream stream(text);
  return (stream >> *value) && (stream >> std::ws).eof();
}
// "(2, 3)", "[2,3]" or "2".
inline bool parse(const std::string& text, nnvm::TShape* value) {
  std::vector<nnvm::dim_t> dims;
  std::string inner = text;
  for (char& c : inner) {
    if (c == '(' || c == ')' || c == '[' || c == ']' || c == ',' || c == 'L') c = ' ';
  }
  std::istringstream stream(inner);
  for (nnvm::dim_t dim = 0; stream >> dim;) dims.push_back(dim);
  *value = nnvm::TShape(dims.begin(), dims.end());
  return stream.eof();
}

// One field of a structure P: where it is, and what may be in it.
class Field {
 public:
  Field(const std::string& given, const char* type, size_t offset) : name(given), type_name(type), offset_(offset) {}
  virtual ~Field() {}
  virtual void read(const std::string& text, void* object) const = 0;
  virtual void write_default(void* object) const = 0;
  // What may be given, in words.
  virtual std::string expected() const = 0;

  const std::string name, type_name;
  std::string description;
  bool has_default = false;

 protected:
  const size_t offset_;
};

template <typename T>
class FieldEntry : public Field {
 public:
  FieldEntry(const std::string& given, size_t offset)
      : Field(given, parameter::type_name(static_cast<const T*>(nullptr)), offset), default_(), lower_(), upper_() {}

  FieldEntry& describe(const std::string& text) {
    description = text;
    return *this;
  }
  FieldEntry& set_default(const T& value) {
    default_ = value;
    has_default = true;
    return *this;
  }
  FieldEntry& set_range(const T& lower, const T& upper) { return set_lower_bound(lower).set_upper_bound(upper); }
  FieldEntry& set_lower_bound(const T& lower) {
    lower_ = lower;
    has_lower_ = true;
    return *this;
  }
  FieldEntry& set_upper_bound(const T& upper) {
    upper_ = upper;
    has_upper_ = true;
    return *this;
  }
  FieldEntry& add_enum(const std::string& text, const T& value) {
    names_.push_back(std::make_pair(text, value));
    return *this;
  }

  void read(const std::string& text, void* object) const override {
    T value = T();
    for (const auto& known : names_) {
      if (known.first == text) return write(known.second, object);
    }
    if (!names_.empty() || !parse(text, &value)) fail(text);
    if ((has_lower_ && less(value, lower_)) || (has_upper_ && less(upper_, value))) fail(text);
    write(value, object);
  }
  void write_default(void* object) const override { write(default_, object); }
  std::string expected() const override {
    std::string text = type_name;
    if (!names_.empty()) {
      text = "one of";
      for (const auto& known : names_) text += (&known == &names_[0] ? " " : ", ") + known.first;
    }
    if (has_lower_) text += " of at least " + text_of(lower_);
    if (has_upper_) text += std::string(has_lower_ ? " and" : " of") + " at most " + text_of(upper_);
    return text;
  }

 private:
  void write(const T& value, void* object) const {
    *reinterpret_cast<T*>(static_cast<char*>(object) + offset_) = value;
  }
  template <typename U>
  static bool less(const U& a, const U& b) {
    return a < b;
  }
  static bool less(const nnvm::TShape&, const nnvm::TShape&) { return false; }
  template <typename U>
  static std::string text_of(const U& value) {
    std::ostringstream stream;
    stream << value;
    return stream.str();
  }
  void fail(const std::string& got) const {
    throw ParamError(name + ": expected " + expected() + ", got \"" + got + "\"");
  }

  T default_, lower_, upper_;
  bool has_lower_ = false, has_upper_ = false;
  std::vector<std::pair<std::string, T>> names_;
};

// A structure's fields, in order.
class Fields {
 public:
  template <typename P, typename T>
  FieldEntry<T>& declare(P* object, const char* name, T* field) {
    size_t offset = reinterpret_cast<char*>(field) - reinterpret_cast<char*>(object);
    FieldEntry<T>* entry = new FieldEntry<T>(name, offset);
    all.push_back(std::unique_ptr<Field>(entry));
    return *entry;
  }
  std::vector<std::unique_ptr<Field>> all;
};

}  // namespace parameter

template <typename P>
class Parameter {
 public:
  // Reads all fields. Attributes whose names begin with "__" are the host's.
  template <typename Map>
  void Init(const Map& texts) {
    std::string known;
    for (const auto& field : fields().all) {
      known += (known.empty() ? "" : ", ") + field->name;
      auto given = texts.find(field->name);
      if (given != texts.end()) {
        field->read(given->second, static_cast<P*>(this));
        continue;
      }
      if (!field->has_default) throw ParamError(field->name + ": expected " + field->expected() + ", got nothing");
      field->write_default(static_cast<P*>(this));
    }
    for (const auto& given : texts) {
      if (given.first.compare(0, 2, "__") == 0 || find(given.first) != nullptr) continue;
      throw ParamError("\"" + given.first + "\" is no attribute; the attributes are: " + known);
    }
  }
  static std::vector<ParamFieldInfo> __FIELDS__() {
    std::vector<ParamFieldInfo> infos;
    for (const auto& field : fields().all) {
      std::string presence = field->has_default ? ", optional" : ", required";
      infos.push_back(ParamFieldInfo{field->name, field->type_name, field->type_name + presence, field->description});
    }
    return infos;
  }

 private:
  static const parameter::Field* find(const std::string& name) {
    for (const auto& field : fields().all) {
      if (field->name == name) return field.get();
    }
    return nullptr;
  }
  HYBRIDC_LOCAL static const parameter::Fields& fields() {
    static const std::unique_ptr<parameter::Fields> all(declared());
    return *all;
  }
  static parameter::Fields* declared() {
    std::unique_ptr<parameter::Fields> all(new parameter::Fields());
    P().hybridc_declare_fields(all.get());
    return all.release();
  }
};

}  // namespace dmlc

// Inside the structure: DMLC_DECLARE_PARAMETER(P) { DMLC_DECLARE_FIELD(axis).set_default(-1).describe("…"); }
#define DMLC_DECLARE_PARAMETER(P) void hybridc_declare_fields(::dmlc::parameter::Fields* hybridc_fields)
#define DMLC_DECLARE_FIELD(name) hybridc_fields->declare(this, #name, &this->name)
// MXNet needs this once for each structure; nothing is needed here.
#define DMLC_REGISTER_PARAMETER(P) static_assert(sizeof(P) > 0, "")

#endif  // HYBRIDC_NNVM_PARAMETER_H_
