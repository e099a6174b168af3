// Namespaces in paths: what is not of the default one stands below its namespace.

import { quoted } from "./copying.js";

export const DEFAULT_NAMESPACE = "default";

/** True for the namespace that paths and commands need not name. */
export const isDefault = (namespace) => !namespace || namespace === DEFAULT_NAMESPACE;

/** The option of a command. */
export const namespaceOption = (namespace) => (isDefault(namespace) ? "" : ` --namespace ${quoted(namespace)}`);

/** The filter of a list. */
export const NAMESPACE_FILTER = { name: "namespace", label: "Namespace", hint: DEFAULT_NAMESPACE };
