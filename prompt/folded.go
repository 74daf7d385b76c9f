package prompt

import (
	"strconv"
	"unicode/utf8"
)

// CaseError names a top-level member that differs from a known one by case only. It is ErrField.
type CaseError struct{ Got, Want string }

func (e *CaseError) Error() string {
	return "the engine takes " + strconv.Quote(e.Got) + " for " + strconv.Quote(e.Want) + "; write it so"
}

// Is makes errors.Is(err, ErrField) true.
func (e *CaseError) Is(target error) bool { return target == ErrField }

// noteFolded notes the first unknown member that an engine written in Go takes for a known one.
func (s *scan) noteFolded(name []byte) {
	if s.folded != nil {
		return
	}
	var small [maxNameBytes]byte
	if f := findField(fold(small[:0], name)); f < numFields {
		s.folded = &CaseError{string(name), fieldNames[f]}
	}
}

// folds reports whether an engine written in Go takes a name for the known one.
func folds(name, known string) bool { return string(fold(nil, []byte(name))) == known }

// fold appends a name in small letters. Of the characters that are no ASCII, Unicode folds only ſ and the Kelvin sign
// to ASCII letters, of which all known names are.
func fold(dst, name []byte) []byte {
	for i := 0; i < len(name); i++ {
		switch b := name[i]; {
		case b >= 'A' && b <= 'Z':
			dst = append(dst, b|' ')
		case b < utf8.RuneSelf:
			dst = append(dst, b)
		default:
			r, n := utf8.DecodeRune(name[i:])
			switch i += n - 1; r {
			case 'ſ':
				dst = append(dst, 's')
			case '\u212a':
				dst = append(dst, 'k')
			default:
				return nil
			}
		}
	}
	return dst
}
