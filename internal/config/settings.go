package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

const hidden = "(hidden)"

// Redacted is a copy in which every secret reads "(hidden)", and passwords in URLs "xxxxx". It shares no mutable data
// with c.
func (c Config) Redacted() Config {
	out := reflect.New(reflect.TypeOf(c)).Elem()
	redact(reflect.ValueOf(c), out)
	return out.Interface().(Config)
}

func redact(from, to reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		to.Set(from)
		for _, f := range strictyaml.Fields(from.Type()) {
			v := to.FieldByIndex(f.Index)
			redact(from.FieldByIndex(f.Index), v)
			if f.Secret {
				hide(v)
			}
		}
	case reflect.Slice:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			redact(from.Index(i), to.Index(i))
		}
	case reflect.Map:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for _, k := range from.MapKeys() {
			v := reflect.New(from.Type().Elem()).Elem()
			redact(from.MapIndex(k), v)
			to.SetMapIndex(k, v)
		}
	case reflect.Pointer:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.New(from.Type().Elem()))
		redact(from.Elem(), to.Elem())
	case reflect.String:
		to.Set(from)
		if s := from.String(); strings.Contains(s, "://") && strings.Contains(s, "@") {
			if u, err := url.Parse(s); err == nil && u.User != nil {
				if _, has := u.User.Password(); has {
					to.SetString(u.Redacted())
				}
			}
		}
	default:
		to.Set(from)
	}
}

// hide replaces a secret, or the values of a map of secrets.
func hide(v reflect.Value) {
	switch {
	case v.IsZero():
	case v.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.ValueOf(hidden))
		}
	default:
		v.SetString(hidden)
	}
}

// Settings is the configuration under its own keys, for encoding as JSON or YAML: secrets hidden, durations and sizes
// as texts.
func (c Config) Settings() map[string]any {
	return tree(reflect.ValueOf(c.Redacted())).(map[string]any)
}

func tree(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range strictyaml.Fields(v.Type()) {
			out[f.Name] = tree(v.FieldByIndex(f.Index))
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = tree(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = tree(v.MapIndex(k))
		}
		return out
	case reflect.Pointer:
		return tree(v.Elem())
	}
	return v.Interface()
}
