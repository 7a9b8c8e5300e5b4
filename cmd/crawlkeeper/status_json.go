package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"crawlkeeper/status"
)

// encodeStatus writes {"manager":{…}|null,"sources":[{"code":…, the status fields}]} on one line.
func encodeStatus(holder *status.Holder, sources []sourceStatus) (string, error) {
	objects := make([]json.RawMessage, 0, len(sources))
	for _, s := range sources {
		object, err := s.encode()
		if err != nil {
			return "", err
		}
		objects = append(objects, object)
	}
	text, err := encodeJSON(struct {
		Manager *status.Holder    `json:"manager"`
		Sources []json.RawMessage `json:"sources"`
	}{holder, objects})
	return string(text), err
}

// encode writes the status field with the code in front.
func (s sourceStatus) encode() (json.RawMessage, error) {
	code, err := json.Marshal(s.code)
	if err != nil {
		return nil, fmt.Errorf("write code: %w", err)
	}
	field := s.AppendJSON(nil)
	object := append([]byte(`{"code":`), code...)
	object = append(object, ',')
	return append(object, bytes.TrimPrefix(field, []byte("{"))...), nil
}
