// Package jinja is the renderer of chat templates: the part of the Jinja template language (palletsprojects.com/p/jinja, 3.1) that models' chat templates are
// written in, with the settings and additions of Hugging Face transformers (utils/chat_template_utils.py): trim_blocks, lstrip_blocks, loop controls,
// {% generation %}, tojson, raise_exception, strftime_now, and a sandbox in which nothing can be changed but a namespace.
//
// A prompt whose text differs in one byte has other tokens, so values behave as Python's do: dictionaries keep their order, None is not what is undefined, strings are
// made of characters, division rounds down. What is not known is an error, never a guess: an unknown filter, test, method, statement or argument.
//
// A template is foreign text. It reads no files, its parsing and its rendering are bounded in depth, steps and bytes (see Budget), and no value that it is given is changed.
package jinja
