package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// placeholder is how other programs write a variable into their files: Compose and shells (${NAME}, $NAME), Kubernetes
// ($(NAME)), LiteLLM (os.environ/NAME), templates ({{ NAME }}).
var placeholder = regexp.MustCompile(`\$\{\w+[^}]*\}|\$\(\w+\)|^\$[A-Z_][A-Z0-9_]*$|^os\.environ/\w*|\{\{.*\}\}`)

// checkPlaceholders reports each secret that names a variable. Nothing replaces it here, so the name itself would be
// the secret: engines refuse it, and everybody who reads the file knows the token of the router.
func (c Config) checkPlaceholders() []error {
	return placeholders("", reflect.ValueOf(c), nil)
}

func placeholders(path string, v reflect.Value, faults []error) []error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return placeholders(path, v.Elem(), faults)
		}
	case reflect.Slice:
		for i := range v.Len() {
			faults = placeholders(path+"["+strconv.Itoa(i)+"]", v.Index(i), faults)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			faults = placeholders(path, v.MapIndex(k), faults)
		}
	case reflect.Struct:
		fields := strictyaml.Fields(v.Type())
		for _, f := range fields {
			at, of := strictyaml.Join(path, f.Name), v.FieldByIndex(f.Index)
			if !f.Secret {
				faults = placeholders(at, of, faults)
				continue
			}
			for _, text := range secretTexts(of) {
				if name := placeholder.FindString(text); name != "" { // the rest may be a secret
					faults = append(faults, fault(at, "has %q as it stands, since variables are not replaced here%s",
						name, insteadOf(f.Name, fields)))
				}
			}
		}
	}
	return faults
}

func secretTexts(v reflect.Value) []string {
	if v.Kind() == reflect.String {
		return []string{v.String()}
	}
	var out []string
	for _, k := range v.MapKeys() {
		out = append(out, v.MapIndex(k).String())
	}
	slices.Sort(out)
	return out
}

// insteadOf names the keys that say where a secret is to be read.
func insteadOf(name string, fields []strictyaml.Field) string {
	var keys []string
	for _, f := range fields {
		if f.Name == name+"_env" || f.Name == name+"_file" {
			keys = append(keys, f.Name)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return "; give " + strings.Join(keys, " or ")
}
