// Package jinja renders chat templates: the part of the Jinja template language (palletsprojects.com/p/jinja, 3.1) that
// the chat templates of language models are written in, with the settings and additions of Hugging Face transformers
// (utils/chat_template_utils.py): trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson, raise_exception,
// strftime_now, and a sandbox in which nothing can be changed but a namespace.
//
// It owns the values of a template (Dict, List, Tuple), the reading of JSON into them (Decode), the reading of
// templates (Parse) and their rendering (Template.Render).
//
// It promises that a text is the one that Jinja2 renders, byte for byte, since a prompt that differs in one byte has
// other tokens. Values behave as Python's do: dictionaries keep their order, None is not what is undefined, strings are
// made of characters, division rounds down. What is not supported is an error that names it, most of it from Parse: an
// unknown filter, test, method, statement or argument. testdata/expressions.json holds what Jinja2 makes of 201
// templates.
//
// It never reads a file, a clock or the environment, never changes a value that it is given, never starts a goroutine,
// and never guesses. A Template may be used by several goroutines.
//
// A template may be hostile. One of more than 1 MiB is refused; Parse allocates at most 1 KiB for each byte, and
// nesting is bounded. A rendering ends with ErrBudget where it would do more than its Budget allows; it allocates about
// 1 KiB at most for each step. Steps differ in time: Budget.Expired bounds that.
package jinja
