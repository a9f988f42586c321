import { runSuite } from "./lib/suite.mjs";

runSuite({ name: "fork-sqlite", fork: true });
