// Renders a Helm chart without helm, which Debian does not have. The template engine is the same
// (text/template), and so are the functions (sprig); what helm adds to them is below: include, tpl,
// required, toYaml and its kin. Where helm is installed, chart_test.py compares the two.
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml...]
//
// Prints the objects as helm does, each behind a line "---" and the name of its template. The values
// are checked against their schema by the caller.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

func fail(format string, arguments ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func readYaml(path string) values {
	text, err := os.ReadFile(path)
	if err != nil {
		fail("%v", err)
	}
	found := values{}
	if err := yaml.Unmarshal(text, &found); err != nil {
		fail("%s: %v", path, err)
	}
	return found
}

// What is in `over` wins; null takes a key away, as in helm.
func merge(base, over values) values {
	for key, value := range over {
		inner, isMap := value.(values)
		before, wasMap := base[key].(values)
		switch {
		case value == nil:
			delete(base, key)
		case isMap && wasMap:
			base[key] = merge(before, inner)
		default:
			base[key] = value
		}
	}
	return base
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func fromYaml(text string) values {
	found := values{}
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		found["Error"] = err.Error()
	}
	return found
}

func fromJson(text string) values {
	found := values{}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		found["Error"] = err.Error()
	}
	return found
}

func required(message string, value interface{}) (interface{}, error) {
	if value == nil || value == "" {
		return value, fmt.Errorf("%s", message)
	}
	return value, nil
}

func functions(all *template.Template) template.FuncMap {
	found := sprig.TxtFuncMap()
	delete(found, "env")
	delete(found, "expandenv")
	found["toYaml"] = toYaml
	found["fromYaml"] = fromYaml
	found["fromJson"] = fromJson
	found["required"] = required
	found["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	found["tpl"] = func(text string, data interface{}) (string, error) {
		copied, err := all.Clone()
		if err != nil {
			return "", err
		}
		parsed, err := copied.New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = parsed.Execute(&out, data)
		return out.String(), err
	}
	// As helm does without a cluster.
	found["lookup"] = func(...string) values { return values{} }
	return found
}

func main() {
	if len(os.Args) < 4 {
		fail("usage: render CHART RELEASE NAMESPACE [VALUES.yaml...]")
	}
	folder := os.Args[1]
	chart := readYaml(filepath.Join(folder, "Chart.yaml"))
	given := readYaml(filepath.Join(folder, "values.yaml"))
	for _, path := range os.Args[4:] {
		given = merge(given, readYaml(path))
	}
	described := values{}
	for key, value := range chart {
		described[strings.ToUpper(key[:1])+key[1:]] = value
	}
	root := values{
		"Values": given,
		"Chart":  described,
		"Release": values{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm",
			"IsInstall": true, "IsUpgrade": false, "Revision": 1},
	}

	all := template.New("").Option("missingkey=zero")
	all.Funcs(functions(all))
	var names []string
	err := filepath.Walk(filepath.Join(folder, "templates"),
		func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			names = append(names, name)
			_, err = all.New(name).Parse(string(text))
			return err
		})
	if err != nil {
		fail("%v", err)
	}
	sort.Strings(names)
	for _, name := range names {
		var out bytes.Buffer
		// helm writes nothing where a value is missing; a nil in the output would be a mistake of ours.
		if err := all.ExecuteTemplate(&out, name, root); err != nil {
			fail("%v", err)
		}
		text := strings.TrimSpace(out.String())
		if strings.Contains(text, "<no value>") {
			fail("%s: a value is used that is not there", name)
		}
		if strings.HasSuffix(name, ".yaml") && text != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, text)
		}
	}
}
