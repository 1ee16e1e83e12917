package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// A small class in the shape that the package has.
var example = folder{
	declarations: `
export interface ThingConfig extends cdktn.TerraformMetaArguments {
    readonly fullName: string;
    readonly tags?: { [key: string]: string };
    readonly rule: ThingRule[] | cdktn.IResolvable;
    readonly timeouts?: ThingTimeouts;
}
export interface ThingRule {
    readonly days?: number;
}
export interface ThingTimeouts {
    readonly create?: string;
}
`,
	code: `
function thingRuleToHclTerraform(struct) {
    const attrs = {
        days: {
            value: cdktn.numberToHclTerraform(struct.days),
            isBlock: false,
            type: "simple",
            storageClassType: "number",
        },
    };
}
class ThingRuleOutputReference extends cdktn.ComplexObject {
    // seen - computed: true, optional: false, required: false
    get seen() {
        return this.getBooleanAttribute('seen');
    }
}
exports.ThingRuleOutputReference = ThingRuleOutputReference;
function thingTimeoutsToHclTerraform(struct) {
    const attrs = {
        create: {
            value: cdktn.stringToHclTerraform(struct.create),
            isBlock: false,
            type: "simple",
            storageClassType: "string",
        },
    };
}
class Thing extends cdktn.TerraformResource {
    constructor() {
        super({ terraformResourceType: 'aws_thing', terraformGeneratorMetadata: { providerVersion: '6.66.0' } });
    }
    // arn - computed: true, optional: false, required: false
    get arn() {
        return this.getStringAttribute('arn');
    }
    synthesizeHclAttributes() {
        const attrs = {
            full_name: {
                value: cdktn.stringToHclTerraform(this._fullName),
                isBlock: false,
                type: "simple",
                storageClassType: "string",
            },
            tags: {
                value: cdktn.hashMapperHcl(cdktn.stringToHclTerraform)(this._tags),
                isBlock: false,
                type: "map",
                storageClassType: "stringMap",
            },
            rule: {
                value: cdktn.listMapperHcl(thingRuleToHclTerraform, true)(this._rule.internalValue),
                isBlock: true,
                type: "list",
                storageClassType: "ThingRuleList",
            },
            timeouts: {
                value: thingTimeoutsToHclTerraform(this._timeouts.internalValue),
                isBlock: true,
                type: "struct",
                storageClassType: "ThingTimeouts",
            },
        };
        // remove undefined attributes
    }
}
exports.Thing = Thing;
`,
}

func TestSchemaOfAClass(t *testing.T) {
	t.Parallel()
	name, version, err := example.identity()
	if err != nil || name != "aws_thing" || version != "6.66.0" {
		t.Errorf("%s %s, %v", name, version, err)
	}
	block, err := example.resource()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(block)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"attributes":{"arn":{"type":"string","computed":true},"full_name":{"type":"string","required":true},` +
		`"tags":{"type":["map","string"],"optional":true,"computed":true}},` +
		`"blocks":{"rule":{"nesting":"list","min":1,"block":{"attributes":{"days":{"type":"number","optional":true,"computed":true},"seen":{"type":"bool","computed":true}}}},` +
		`"timeouts":{"nesting":"single","block":{"attributes":{"create":{"type":"string","optional":true,"computed":true}}}}}}`
	if string(got) != want {
		t.Errorf("the schema is\n%s, want\n%s", got, want)
	}
}

// A package of another shape is refused, and not read as one without arguments.
func TestOtherShapesAreRefused(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]folder{
		"nothing":         {},
		"no declarations": {code: example.code},
		"an unknown type": {code: strings.Replace(example.code, `"stringMap"`, `"matrix"`, 1), declarations: example.declarations},
	} {
		if _, err := f.resource(); !errors.Is(err, errShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
