// Command gen writes s2.pb.go from s2.proto, with a compiler and a generator in Go that go.mod pins: neither protoc nor
// a network is needed, so a check can generate again and compare. Run it by `go generate` in the folder of s2.proto.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source = "s2.proto"

func main() {
	files, err := generate(".")
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate gives the files that folder's definition makes, by name.
func generate(folder string) (map[string]string, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{folder}},
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments
	}
	files, err := compiler.Compile(context.Background(), source)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", source, err)
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	})
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	for _, file := range plugin.Files {
		internal_gengo.GenerateFile(plugin, file)
	}
	response := plugin.Response()
	if response.Error != nil {
		return nil, fmt.Errorf("generate: %s", *response.Error)
	}
	made := make(map[string]string)
	for _, file := range response.File {
		made[file.GetName()] = file.GetContent()
	}
	return made, nil
}
