#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/choice.h"
#include "daemon/base/config_table.h"

namespace simm::base {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const KeySpec& key) {
  ordered_json schema;
  switch (key.type) {
    case KeyType::boolean:
      schema["type"] = "boolean";
      break;
    case KeyType::integer:
      schema["type"] = "integer";
      schema["minimum"] = key.min;
      schema["maximum"] = key.max;
      break;
    case KeyType::bytes:
    case KeyType::bytes_or_share: {
      const bool share = key.type == KeyType::bytes_or_share;
      const std::string size = "[0-9]+(\\.[0-9]+)? ?([kKmMgGtT]([iI]?[bB])?|[bB])?";
      schema["anyOf"] = {
          {{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}},
          {{"type", "string"}, {"pattern", share ? "^(" + size + "|[0-9]+%)$" : "^" + size + "$"}}};
      break;
    }
    case KeyType::text:
      schema["type"] = "string";
      schema["minLength"] = key.min;
      schema["maxLength"] = key.max;
      break;
    case KeyType::texts:
      schema["anyOf"] = {
          {{"type", "string"}, {"minLength", key.min}, {"maxLength", key.max}},
          {{"type", "array"}, {"items", {{"type", "string"}, {"pattern", "^[^,]+$"}}}}};
      break;
    case KeyType::choice:
      schema["enum"] = choice_list(key.choices);
      break;
    case KeyType::integers:
      schema["type"] = "array";
      schema["items"] = {{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}};
      break;
  }
  const bool has_default = !key.fallback.empty() && key.fallback != "null";
  if (has_default) schema["default"] = ordered_json::parse(key.fallback);
  schema["description"] = key.help;
  return schema;
}

// A key among the properties of its object, also under the name that it had before.
void add_property(ordered_json& properties, const std::string& name, const KeySpec& key) {
  properties[name] = describe(key);
  const std::string former(former_name(key.path));
  if (former.empty()) return;
  ordered_json old = describe(key);
  old.erase("default");
  old["deprecated"] = true;
  old["description"] = "The former name of " + name + ".";
  properties[former] = old;
}

// The object schema at the first part of `path`, made when it is missing.
ordered_json& child_object(ordered_json& parent, const std::string& name, bool list) {
  ordered_json& slot = parent["properties"][name];
  ordered_json* object = &slot;
  if (list) {
    slot["type"] = "array";
    object = &slot["items"];
  }
  if (!object->contains("type")) {
    (*object)["type"] = "object";
    (*object)["additionalProperties"] = false;
    (*object)["properties"] = ordered_json::object();
  }
  return *object;
}

}  // namespace

std::string config_schema() {
  ordered_json root;
  root["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  root["title"] = "Configuration of simmd";
  root["type"] = "object";
  root["additionalProperties"] = false;
  root["properties"] = ordered_json::object();
  for (const KeySpec& key : config_keys()) {
    const std::string path(key.path);
    const std::size_t dot = path.find('.');
    if (dot == std::string::npos) {
      add_property(root["properties"], path, key);
      continue;
    }
    const bool list = path[dot - 1] == ']';
    ordered_json& object = child_object(root, path.substr(0, list ? dot - 2 : dot), list);
    add_property(object["properties"], path.substr(dot + 1), key);
    if (key.fallback.empty()) object["required"].push_back(path.substr(dot + 1));
  }
  return root.dump(2) + "\n";
}

}  // namespace simm::base
