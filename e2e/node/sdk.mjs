// Finds the public TypeScript SDK for the scripts beside this file: in TAILRACE_NODE_DIR, the folder whose node_modules has
// it, or else beside the scripts. An import statement would look in the latter only, and the clone holds no node_modules.

import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const home = process.env.TAILRACE_NODE_DIR ?? fileURLToPath(new URL(".", import.meta.url));
const require = createRequire(join(home, "package.json"));

/** Loads the SDK, or ends the process with what to do about it. */
export function sdk() {
  try {
    return require("@s2-dev/streamstore");
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    console.error(`no @s2-dev/streamstore in ${home}: run tools/setup node-sdk and set TAILRACE_NODE_DIR`);
    process.exit(2);
  }
}

/** The version of the SDK that sdk() loads. */
export const sdkVersion = () => require("./node_modules/@s2-dev/streamstore/package.json").version;

/** Runs a creation; finding the thing there already is success. */
export async function tolerateExisting(create) {
  const { S2Error } = sdk();
  try {
    await create();
  } catch (error) {
    if (!(error instanceof S2Error && error.code === "resource_already_exists")) throw error;
  }
}
