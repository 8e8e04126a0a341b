"""Serves a folder as an S3 bucket and prints the endpoint, until standard input ends.

Usage: store.py FOLDER BUCKET PREFIX
"""

import os
import pathlib
import sys

os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION="us-east-1")

import boto3
from moto.server import ThreadedMotoServer

folder, bucket, prefix = sys.argv[1:]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket=bucket)
for file in pathlib.Path(folder).rglob("*"):
    if file.is_file():
        client.upload_file(str(file), bucket, f"{prefix}/{file.relative_to(folder).as_posix()}")
print(endpoint, flush=True)
sys.stdin.read()
server.stop()
