"""mcp_client.py MODE COMMAND…: the official Python client of the Model Context Protocol. It starts COMMAND and
prints the server's description. For each line `[tool, arguments]` on standard input it prints the result. Run by
mcp_session.py, in the environment mcp."""

import asyncio
import json
import sys

from mcp import MCPError, StdioServerParameters
from mcp.client import Client


async def called(client, name, arguments):
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return {"protocol_error": str(error)}
    texts = [block.text for block in result.content]
    return {"texts": texts, "structured": result.structured_content, "is_error": bool(result.is_error)}


async def main(mode, command, *arguments):
    server = StdioServerParameters(command=command, args=list(arguments))
    loop = asyncio.get_running_loop()
    async with Client(server, mode=mode) as client:
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools]
        about = {"protocol": client.protocol_version, "instructions": client.instructions, "tools": tools}
        print(json.dumps(about), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await called(client, *json.loads(line))), flush=True)


asyncio.run(main(*sys.argv[1:]))
