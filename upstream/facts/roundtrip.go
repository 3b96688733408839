package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	kjson "sigs.k8s.io/json"
)

// question is one line on stdin: an object's text, and the kind to read it as. The text is a string, since it may
// be broken JSON or hold a key twice. Protobuf asks for the object to pass through protobuf as well, as it does when
// it is stored. Patch is the text of a patch for the object.
type question struct {
	Group, Version, Kind, Text string
	Protobuf                   bool
	Patch                      string
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// throughProtobuf stores an object and reads it again. Its kind is kept beside the message.
func throughProtobuf(object any) (any, []byte, error) {
	stored, ok := object.(message)
	if !ok {
		return nil, nil, fmt.Errorf("%T has no protobuf form", object)
	}
	bytes, err := stored.Marshal()
	if err != nil {
		return nil, nil, err
	}
	read := reflect.New(reflect.TypeOf(object).Elem())
	if err := read.Interface().(message).Unmarshal(bytes); err != nil {
		return nil, nil, err
	}
	kind := "TypeMeta"
	read.Elem().FieldByName(kind).Set(reflect.ValueOf(object).Elem().FieldByName(kind))
	return read.Interface(), bytes, nil
}

// answer is one line on stdout: either the error, or the object as Go writes it again, with the strict decoder's
// remarks.
type answer struct {
	Error  string          `json:"error,omitempty"`
	Strict []string        `json:"strict,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	// Message is the object's protobuf form, where that was asked for.
	Message []byte `json:"message,omitempty"`
}

func roundtrip(in io.Reader, out *bufio.Writer) error {
	return answerAll(in, out, func(asked question, goType reflect.Type) any {
		given := answer{}
		object := reflect.New(goType).Interface()
		strict, err := kjson.UnmarshalStrict([]byte(asked.Text), object)
		for _, remark := range strict {
			given.Strict = append(given.Strict, remark.Error())
		}
		if err == nil && asked.Protobuf {
			object, given.Message, err = throughProtobuf(object)
		}
		if err == nil {
			given.Value, err = json.Marshal(object)
		}
		if err != nil {
			given.Error = err.Error()
		}
		return given
	})
}

// answerAll asks for an answer to every line.
func answerAll(in io.Reader, out *bufio.Writer, ask func(question, reflect.Type) any) error {
	rows, err := kinds()
	if err != nil {
		return err
	}
	types := map[[3]string]reflect.Type{}
	for _, row := range rows {
		types[[3]string{row.version.Group, row.version.Version, row.kind}] = row.goType
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	writer := json.NewEncoder(out)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		goType, ok := types[[3]string{asked.Group, asked.Version, asked.Kind}]
		if !ok {
			return fmt.Errorf("unknown kind %s/%s %s", asked.Group, asked.Version, asked.Kind)
		}
		if err := writer.Encode(ask(asked, goType)); err != nil {
			return err
		}
	}
	return lines.Err()
}
