// Checks that tsc does not make. Warnings are errors: scripts/web passes --max-warnings 0.

import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import ts from "typescript-eslint";

const MARKUP = "Names come from captures that anybody may have written: they are only ever text (src/lib/dom.ts).";

export default defineConfig(
  { ignores: ["dist/", "node_modules/"] },
  js.configs.recommended,
  { files: ["*.js"], languageOptions: { globals: { console: "readonly", process: "readonly", URL: "readonly" } } },
  {
    files: ["src/**/*.ts"],
    extends: [ts.configs.recommendedTypeChecked, ts.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "prefer-template": "error",
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/explicit-module-boundary-types": "error",
      "@typescript-eslint/no-confusing-void-expression": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "@typescript-eslint/no-unnecessary-condition": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      // An empty name counts as missing: `name || "none"`.
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { string: true } }],
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML", "write", "html"].map((property) => ({ property, message: MARKUP }))],
      "no-restricted-syntax": ["error", {
        selector: "CallExpression[callee.property.name='setAttribute'] > Literal[value='style']",
        message: "The pages' policy allows no style attribute: set properties of element.style.",
      }],
    },
  },
);
