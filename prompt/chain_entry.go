package prompt

import (
	"bytes"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// form is the kind of an object within a prompt, by its "type".
type form uint8

const (
	plainForm form = iota // a message, a text, media, or untyped
	call                  // a tool call
	result                // a tool's result
	thought               // not rendered in later turns
)

// entry is one message, item, part or tool call: the tokens of its relevant members, in any order in the body. 0 is
// absent: no member's value is the first token of a tape.
type entry struct {
	known bool // has a relevant member besides role and type
	form  form

	role, name uint32
	content    uint32 // content, output
	text       uint32 // text, refusal
	args       uint32 // arguments, input
	calls      uint32 // tool_calls
	function   uint32 // function, function_call, custom
	media      [numMedia]uint32
}

// The members that contain media, or their address or id, in the order of writing.
const (
	mediaImageURL = iota
	mediaVideoURL
	mediaAudioURL
	mediaInputAudio
	mediaAudio
	mediaImages
	mediaImage
	mediaVideo
	mediaSource
	mediaFile
	mediaFileData
	mediaFileURL
	mediaFileID
	mediaURL
	mediaData
	mediaID // within media only
	numMedia
)

// gather finds the members of the object at i. Of duplicates the last counts.
func (c *Chain) gather(i uint32) entry {
	var e entry
	t := &c.tape
	for j, end := i+1, t.tokens[i].after; j < end; {
		v := j + 1
		name := t.content(j)
		j = t.tokens[v].after
		at := (*uint32)(nil)
		switch string(name) {
		case "role":
			e.role = v
			continue
		case "type":
			if t.tokens[v].kind == jsonscan.String {
				e.form = formOf(t.content(v))
			}
			continue
		case "name", "tool_name":
			at = &e.name
		case "content", "output":
			at = &e.content
		case "text", "refusal":
			at = &e.text
		case "arguments", "input":
			at = &e.args
		case "tool_calls":
			at = &e.calls
		case "function", "function_call", "custom":
			at = &e.function
		default:
			m := mediaNamed(name)
			if m == numMedia {
				continue
			}
			e.media[m] = v
			e.known = e.known || m != mediaID
			continue
		}
		*at = v
		e.known = true
	}
	return e
}

func formOf(kind []byte) form {
	switch string(kind) {
	case "thinking", "redacted_thinking", "reasoning":
		return thought
	}
	switch {
	case bytes.HasSuffix(kind, []byte("_call")), bytes.HasSuffix(kind, []byte("tool_use")):
		return call
	case bytes.HasSuffix(kind, []byte("_output")), bytes.HasSuffix(kind, []byte("tool_result")):
		return result
	}
	return plainForm
}

func mediaNamed(name []byte) int {
	switch string(name) {
	case "image_url":
		return mediaImageURL
	case "video_url":
		return mediaVideoURL
	case "audio_url":
		return mediaAudioURL
	case "input_audio":
		return mediaInputAudio
	case "audio":
		return mediaAudio
	case "images":
		return mediaImages
	case "image":
		return mediaImage
	case "video":
		return mediaVideo
	case "source":
		return mediaSource
	case "file":
		return mediaFile
	case "file_data":
		return mediaFileData
	case "file_url":
		return mediaFileURL
	case "file_id":
		return mediaFileID
	case "url":
		return mediaURL
	case "data":
		return mediaData
	case "id":
		return mediaID
	}
	return numMedia
}
